"""What a requirements file asks for, as one digest. Standard library only."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_COMMENT = re.compile(r"(^|\s+)#.*$")  # as pip and uv read it: a URL may hold a #


def for_python(requirements: Path, python: str) -> Path:
    """The file beside it with pins for CPython `python` ("3.10"); itself if its pins hold there."""
    other = requirements.with_name(f"{requirements.stem}-{python}{requirements.suffix}")
    return other if other.is_file() else requirements


def digest(requirements: Path) -> str:
    """The first 12 hex digits of the SHA-256 of a requirements file without its comments and blank
    lines, which no environment gets. `slipway.config.artifacts` has the same definition, because
    neither may import the other."""
    text = requirements.read_text(encoding="utf-8")
    lines = (_COMMENT.sub("", line).rstrip() for line in text.splitlines())
    return hashlib.sha256("".join(f"{line}\n" for line in lines if line).encode()).hexdigest()[:12]
