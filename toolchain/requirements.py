"""What a requirements file asks for, as one digest. Standard library only."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_COMMENT = re.compile(r"(^|\s+)#.*$")  # as pip and uv read it: a URL may hold a #


def digest(requirements: Path) -> str:
    """The first 12 hex digits of the SHA-256 of a requirements file without its comments and blank
    lines, which no environment gets. `slipway.config.artifacts` has the same definition, because
    neither may import the other."""
    text = requirements.read_text(encoding="utf-8")
    lines = (_COMMENT.sub("", line).rstrip() for line in text.splitlines())
    return hashlib.sha256("".join(f"{line}\n" for line in lines if line).encode()).hexdigest()[:12]
