"""One OpenSSH client that forwards through one host, and the choice of that host."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slipway.cli.machine.children import ended_by
from slipway.cli.reach.document import Forwarding
from slipway.cli.reach.ssh import forwarding, known_hosts

HEAD_START_S = 1.5  # of a host before the next one is tried, too


class UnreachableError(Exception):
    """No host forwards. `reasons` has what OpenSSH says of each, by name."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("no host can be reached")
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`sockets` of this machine lead to the targets of forwarded addresses, by "address:port"."""

    host: str
    sockets: Mapping[str, Path]
    process: asyncio.subprocess.Process

    async def ended(self) -> None:
        await self.process.wait()

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()
        await self.process.wait()


async def first_session(
    wanted: Forwarding, names: Sequence[str], folder: Path, agent: Mapping[str, str]
) -> Session:
    """A session through the first of these hosts that answers. Hosts that are dead do not say so:
    the next one is tried while the one before is waited for. UnreachableError."""
    left, reasons = list(names), dict[str, str]()
    attempts: dict[asyncio.Task[Session | str], str] = {}
    try:
        while left or attempts:
            if left:
                name = left.pop(0)
                attempts[asyncio.create_task(_attempt(wanted, name, folder, agent))] = name
            done, _ = await asyncio.wait(
                attempts,
                timeout=HEAD_START_S if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                if isinstance(found := attempt.result(), Session):
                    del attempts[attempt]
                    return found
                reasons[attempts.pop(attempt)] = found
    finally:
        for attempt in attempts:
            attempt.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(late, Session):
                await late.close()
    raise UnreachableError(reasons)


async def _attempt(
    wanted: Forwarding, name: str, parent: Path, agent: Mapping[str, str]
) -> Session | str:
    """A session, or what OpenSSH says of the host."""
    host, folder = wanted.hosts[name], Path(tempfile.mkdtemp(dir=parent))
    known = folder / "known_hosts"
    known.write_text(known_hosts(host, wanted.jump))
    targets = dict.fromkeys(target for local in wanted.locals for target in local.targets)
    sockets = {target: folder / str(number) for number, target in enumerate(targets)}
    by_path = {path: target for target, path in sockets.items()}
    process = await asyncio.create_subprocess_exec(
        *forwarding(host, wanted.jump, known, by_path),
        env=agent,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=ended_by(signal.SIGTERM),
    )
    made = Session(host=name, sockets=sockets, process=process)
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    try:
        if await process.stdout.readline():
            return made
        said = (await process.stderr.read()).decode(errors="replace").strip()
    except asyncio.CancelledError:
        await made.close()
        raise
    code = await process.wait()
    return said.replace("\r", "") or f"ssh ended with exit status {code}"
