"""The launcher, which takes its first Triton for stuck at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from replica import launcher
from replica.journal import Journal
from replica.main import main

warn = Journal.warning


def patient_from_now_on(journal: Journal, message: str, **facts: Any) -> None:
    launcher.TRITON_LOAD_S = 3600.0
    warn(journal, message, **facts)


launcher.TRITON_LOAD_S = 0.1
Journal.warning = patient_from_now_on  # type: ignore[method-assign]
sys.exit(main())
