"""Where the gateway is, in a line."""

from __future__ import annotations

from collections.abc import Mapping


def gateway_line(gateway: Mapping[str, str]) -> str:
    """`gateway` as cli.applied.Applied has it."""
    line = f"gateway  {gateway['http']} (OpenAI)   {gateway['grpc']} (Triton gRPC)"
    name = gateway.get("server_name")
    return f"{line}   its certificate is for {name}" if name else line
