"""Plays the AWS command line where its two commands of EC2 Instance Connect are used: it knows the
documented arguments only, and carries its standard input and output to the address it is given.

    python aws_command.py FOLDER PORT ARGUMENTS...

FOLDER decides what it answers: `endpoint` has the ID of the endpoint, if there is one; `refusal`
what AWS says to everything. It writes the arguments of each run into `calls`. PORT stands for 22.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from pathlib import Path

FILTERS = {"tag:slipway:environment", "state"}


def main() -> int:
    folder, port, *arguments = sys.argv[1:]
    state = Path(folder)
    with (state / "calls").open("a") as calls:
        calls.write(f"{os.getpid()} {' '.join(arguments)}\n")
    refusal = state / "refusal"
    if refusal.exists():
        sys.stderr.write(f"\n{refusal.read_text()}\n")
        return 254
    asked = parser().parse_args(arguments)
    if asked.command == "describe-instance-connect-endpoints":
        return describe(asked, state)
    return tunnel(asked, state, int(port))


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser("aws", allow_abbrev=False)
    services = top.add_subparsers(required=True)
    ec2 = services.add_parser("ec2").add_subparsers(dest="command", required=True)
    found = ec2.add_parser("describe-instance-connect-endpoints", allow_abbrev=False)
    found.add_argument("--region", required=True)
    found.add_argument("--filters", nargs="*")
    found.add_argument("--query")
    found.add_argument("--output", choices=["text", "json"], default="json")
    connect = services.add_parser("ec2-instance-connect")
    opened = connect.add_subparsers(dest="command", required=True).add_parser(
        "open-tunnel", allow_abbrev=False
    )
    opened.add_argument("--region", required=True)
    opened.add_argument("--instance-id")
    opened.add_argument("--instance-connect-endpoint-id")
    opened.add_argument("--private-ip-address")
    opened.add_argument("--remote-port", type=int, default=22)
    opened.add_argument("--local-port", type=int)
    opened.add_argument("--max-tunnel-duration", type=int)
    opened.add_argument("--max-websocket-connections", type=int)
    return top


def describe(asked: argparse.Namespace, state: Path) -> int:
    filters = dict(each.removeprefix("Name=").split(",Values=") for each in asked.filters)
    if set(filters) != FILTERS or asked.output != "text":
        sys.stderr.write(f"what is asked is not played: {asked}\n")
        return 252
    endpoint = state / "endpoint"
    known = endpoint.exists() and filters["state"] == "create-complete"
    sys.stdout.write(f"{endpoint.read_text() if known else 'None'}\n")
    return 0


def tunnel(asked: argparse.Namespace, state: Path, port: int) -> int:
    endpoint = (state / "endpoint").read_text()
    if asked.instance_connect_endpoint_id != endpoint or asked.remote_port != 22:
        sys.stderr.write("\nAn error occurred (InvalidInstanceConnectEndpointId.NotFound)\n")
        return 254
    try:
        far = socket.create_connection((asked.private_ip_address, port))
    except OSError as error:
        sys.stderr.write(f"\nawscli.customizations.ec2instanceconnect: {error}\n")
        return 255
    threading.Thread(target=copied, args=(0, far), daemon=True).start()
    while data := far.recv(1 << 16):
        os.write(1, data)
    return 0


def copied(descriptor: int, far: socket.socket) -> None:
    while data := os.read(descriptor, 1 << 16):
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
