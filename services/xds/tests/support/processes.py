"""A child process whose output is kept for the message of a failing test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from hang import HANG_S


@contextlib.asynccontextmanager
async def running(
    *command: str, log: Path, folder: Path | None = None, environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Ended on exit: politely first, by force if it hangs. A test that is killed leaves none."""
    command = ("setpriv", "--pdeathsig", "KILL", *command)
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=output, stderr=output, cwd=folder, env=environment
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), HANG_S)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()
