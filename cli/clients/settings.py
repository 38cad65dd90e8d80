"""What common clients must be told to use the gateway: variables, files, commands. Pure.

The gateway asks for no key; clients that refuse to start without one are given UNUSED.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """`url` is the gateway's, without a path. `authorities` is a file of those that signed its
    certificate; None without TLS, or where the client's machine trusts them anyway."""

    url: str
    model: str
    authorities: Path | None = None

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """`text` is for the file at `path`, where there is one; `source` documents the settings."""

    client: str
    source: str
    variables: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    text: str = ""
    command: str = ""


def settings_of(client: str, connection: Connection) -> ClientSettings:
    """KeyError for a client that is not among CLIENTS."""
    return CLIENTS[client](connection)


def _trusting(connection: Connection, variable: str) -> dict[str, str]:
    return {variable: str(connection.authorities)} if connection.authorities else {}


def _openai(connection: Connection) -> ClientSettings:
    return ClientSettings(
        client="openai",
        source="https://github.com/openai/openai-python",
        variables={
            "OPENAI_BASE_URL": connection.openai_url,
            "OPENAI_API_KEY": UNUSED,
            **_trusting(connection, "SSL_CERT_FILE"),
        },
        command=_python(
            "from openai import OpenAI",
            f"print(OpenAI().responses.create(model='{connection.model}',"
            " input='Say hello.').output_text)",
        ),
    )


def _anthropic(connection: Connection) -> ClientSettings:
    return ClientSettings(
        client="anthropic",
        source="https://github.com/anthropics/anthropic-sdk-python",
        variables={
            "ANTHROPIC_BASE_URL": connection.url,
            "ANTHROPIC_API_KEY": UNUSED,
            **_trusting(connection, "SSL_CERT_FILE"),
        },
        command=_python(
            "from anthropic import Anthropic",
            f"print(Anthropic().messages.create(model='{connection.model}', max_tokens=64,"
            " messages=[{'role': 'user', 'content': 'Say hello.'}]).content[0].text)",
        ),
    )


def _claude_code(connection: Connection) -> ClientSettings:
    """It has a model for each kind of work; here is one for all."""
    kinds = ("OPUS", "SONNET", "HAIKU")
    return ClientSettings(
        client="claude-code",
        source="https://code.claude.com/docs/en/llm-gateway",
        variables={
            "ANTHROPIC_BASE_URL": connection.url,
            "ANTHROPIC_AUTH_TOKEN": UNUSED,
            "ANTHROPIC_MODEL": connection.model,
            **{f"ANTHROPIC_DEFAULT_{kind}_MODEL": connection.model for kind in kinds},
            **_trusting(connection, "NODE_EXTRA_CA_CERTS"),
        },
        command="claude",
    )


def _codex(connection: Connection) -> ClientSettings:
    return ClientSettings(
        client="codex",
        source="https://developers.openai.com/codex/config-reference",
        variables=_trusting(connection, "CODEX_CA_CERTIFICATE"),
        path="~/.codex/config.toml",
        text=f"""\
model = "{connection.model}"
model_provider = "slipway"

[model_providers.slipway]
name = "Slipway"
base_url = "{connection.openai_url}"
wire_api = "responses"
""",
        command="codex",
    )


def _aider(connection: Connection) -> ClientSettings:
    return ClientSettings(
        client="aider",
        source="https://aider.chat/docs/llms/openai-compat.html",
        variables={
            "OPENAI_API_BASE": connection.openai_url,
            "OPENAI_API_KEY": UNUSED,
            **_trusting(connection, "SSL_CERT_FILE"),
        },
        command=f"aider --model openai/{connection.model}",
    )


def _continue(connection: Connection) -> ClientSettings:
    trusting = ""
    if connection.authorities:
        trusting = (
            f"    requestOptions:\n      caBundlePath: {json.dumps(str(connection.authorities))}\n"
        )
    return ClientSettings(
        client="continue",
        source="https://docs.continue.dev/reference",
        path="~/.continue/config.yaml",
        text=f"""\
name: Slipway
version: 0.0.1
schema: v1
models:
  - name: {connection.model}
    provider: openai
    model: {connection.model}
    apiBase: {connection.openai_url}
    apiKey: {UNUSED}
{trusting}""",
    )


def _langchain(connection: Connection) -> ClientSettings:
    return ClientSettings(
        client="langchain",
        source="https://docs.langchain.com/oss/python/integrations/chat/openai",
        variables=_trusting(connection, "SSL_CERT_FILE"),
        path="a Python program",
        text=f"""\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model="{connection.model}", base_url="{connection.openai_url}", api_key="{UNUSED}"
)
""",
    )


def _curl(connection: Connection) -> ClientSettings:
    trusting = f"--cacert '{connection.authorities}' " if connection.authorities else ""
    body = {
        "model": connection.model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "stream": True,
    }
    return ClientSettings(
        client="curl",
        source="https://curl.se/docs/manpage.html",
        command=f"curl -N {trusting}{connection.openai_url}/chat/completions"
        f" -H 'content-type: application/json' -d '{json.dumps(body)}'",
    )


def _python(*lines: str) -> str:
    return f'python -c "{"; ".join(lines)}"'


CLIENTS: Mapping[str, Callable[[Connection], ClientSettings]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "claude-code": _claude_code,
    "codex": _codex,
    "aider": _aider,
    "continue": _continue,
    "langchain": _langchain,
    "curl": _curl,
}
