"""Files of SHA-256 sums, one `<sha256>  <file name>` a line, as sha256sum prints and vendors
publish them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](\S+)")


class SumsError(ValueError):
    """A line that makes a file of sums unusable. The text says which and why."""


class MalformedLineError(SumsError):
    """`line`, at `number`, is not a checksum line."""

    def __init__(self, number: int, line: str) -> None:
        super().__init__(f"line {number}: not a checksum line: {line!r}")


class TwoSumsError(SumsError):
    """The line at `number` has another sum for a file than a line before it."""

    def __init__(self, number: int, file_name: str) -> None:
        super().__init__(f"line {number}: another sum for {file_name} than in a line before it")


def read_sums(text: str) -> dict[str, str]:
    """File name to SHA-256 in lower-case hex. MalformedLineError for any other line that is not
    empty; TwoSumsError for two different sums of one file."""
    sums = dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise MalformedLineError(number, line.strip())
            _add(match, number, sums)
    return sums


def _add(match: re.Match[str], number: int, sums: dict[str, str]) -> None:
    if sums.setdefault(match[2], match[1].lower()) != match[1].lower():
        raise TwoSumsError(number, match[2])


def write_sums(sums: Mapping[str, str]) -> str:
    """The text of a file that `sha256sum --check` reads, in the order of the file names."""
    return "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(sums.items()))


def find_sum(text: str, file_name: str) -> str | None:
    """The SHA-256 of one file, in lower-case hex; other lines may be anything. TwoSumsError for two
    different ones."""
    sums = dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.strip())
        if match is not None and match[2] == file_name:
            _add(match, number, sums)
    return sums.get(file_name)
