"""Compare a document with its golden file, whole.

SLIPWAY_UPDATE_GOLDEN=1 writes the files instead; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, document: Any) -> None:
    assert_golden_text(name, json.dumps(document, indent=2, sort_keys=True) + "\n")


def assert_golden_text(name: str, text: str) -> None:
    """For a renderer that returns the text of a file: every byte counts."""
    path = GOLDEN / name
    if os.environ.get("SLIPWAY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{name} differs: SLIPWAY_UPDATE_GOLDEN=1 updates it"
