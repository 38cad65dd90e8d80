"""The launcher, which takes Triton for stuck as soon as failing_triton.py says that it hangs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from replica.launcher import Launcher
from replica.main import main

STUCK = Path(os.environ["SLIPWAY_RUNTIME"], "stuck")

models_are_ready = Launcher._models_are_ready


async def ready_or_stuck(launcher: Launcher) -> bool:
    if STUCK.exists():
        STUCK.unlink()
        raise asyncio.TimeoutError
    return await models_are_ready(launcher)


Launcher._models_are_ready = ready_or_stuck  # type: ignore[method-assign]
sys.exit(main())
