"""The settings of clients as lines that can be copied."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from cli.clients.settings import ClientSettings


def settings_lines(settings: Sequence[ClientSettings]) -> str:
    """Each client's under its name. All but what belongs in a file is for a shell."""
    return "\n".join(line for each in settings for line in _lines(each))


def _lines(settings: ClientSettings) -> Iterator[str]:
    yield f"# {settings.client} ({settings.source})"
    for name, value in settings.variables.items():
        yield f"export {name}={shlex.quote(value)}"
    if settings.text:
        yield f"# in {settings.path}:"
        yield settings.text.rstrip("\n")
    if settings.command:
        yield settings.command
    yield ""
