"""`slipway up` with empty caches, as a markdown table: its time, its longest silence, and the size
of the cache afterwards.

    python3 bench/cold.py CACHE [-s ENVIRONMENT] [--vendors BUILT]

CACHE must be empty or absent, and the checkout a clean clone: everything is built and downloaded
again. With --vendors, the tools come from archives as the vendors serve them: packed from those in
another cache, BUILT, signed by a key that replaces HashiCorp's in this clone, and served here.

The output of `up` is passed on, and the longest time without a line is measured. Standard library
only: the checkout has no environment yet. Ends with the environment up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.machine import loop_factor, measured_on  # noqa: E402
from toolchain.requirements import digest  # noqa: E402

GIB = 1 << 30
VENDORS_BAR_S = 4 * 60  # at usual speed
BAR_S, CACHE_BAR_GIB = 25 * 60, 7
# A log has a line every 30 s at the latest (cli/live/log.py); the rest is for a busy machine.
SILENCE_BAR_S = 32


class Watch:
    """Passes lines on; remembers the longest wait for one and the line before it."""

    def __init__(self) -> None:
        self._last, self._line = time.monotonic(), "(start)"
        self.longest_s, self.before = 0.0, ""

    def read(self, stream: IO[str]) -> None:
        for line in stream:
            self.seen(line.rstrip())
            sys.stderr.write(line)

    def seen(self, line: str) -> None:
        now = time.monotonic()
        if now - self._last > self.longest_s:
            self.longest_s, self.before = now - self._last, self._line
        self._last, self._line = now, line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("-s", "--stack", default="dev")
    parser.add_argument("--vendors", type=Path, metavar="BUILT")
    options = parser.parse_args()
    cache = options.cache.absolute()
    if cache.is_dir() and any(cache.iterdir()):
        parser.error(f"{cache} is not empty")
    if (ROOT / ".venv").exists():
        parser.error(f"{ROOT}/.venv exists already: use a clean clone")

    before, watch = loop_factor(), Watch()
    with vendors(options.vendors) as variables:
        started = time.monotonic()
        result = up(options.stack, cache, watch, variables)
        seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    factor = (before + loop_factor()) / 2
    usual = ("  at usual speed", f"{seconds / factor:.0f} s", f"{VENDORS_BAR_S // 60} min")
    bar = "" if options.vendors else f"{BAR_S // 60} min"
    rows = [
        ("`./slipway up`, to the answer", f"{seconds:.0f} s", bar),
        *([usual] if options.vendors else []),
        ("sources of the tools", sources(options.stack, cache), ""),
        *((f"  phase {name}", f"{spent:.0f} s", "") for name, spent in result["phases"].items()),
        ("longest silence in the log", f"{watch.longest_s:.0f} s", f"{SILENCE_BAR_S} s"),
        ("processor time, all children", f"{(used.ru_utime + used.ru_stime) / 60:.1f} min", ""),
        ("cache afterwards", f"{size(cache) / GIB:.1f} GiB", f"{CACHE_BAR_GIB} GiB"),
        *((f"  {name}", f"{taken / GIB:.1f} GiB", "") for name, taken in parts(cache)),
    ]
    print(f"{measured_on(before)}, {'root' if os.geteuid() == 0 else 'ordinary user'}\n")
    print("| | measured | bar |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\nAnswer: {result['answer']!r}. The longest silence came after: {watch.before!r}")


@contextmanager
def vendors(built: Path | None) -> Iterator[dict[str, str]]:
    """The variables with which a process meets vendors that are played here; none without them."""
    if built is None:
        yield {}
        return
    python = built / "envs" / f"root-{digest(ROOT / 'requirements.txt')}" / "bin" / "python"
    if not python.exists():
        sys.exit(
            f"{python} is not there: run `./slipway tools --install` in another checkout first"
        )
    with subprocess.Popen(
        [str(python), "-m", "bench.vendors", built, ROOT / "toolchain" / "keys" / "hashicorp.asc"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.stdin.close()


def sources(stack: str, cache: Path) -> str:
    """How many tools come from which source, e.g. "archive 6, wheel 2"."""
    listed = subprocess.run(
        [str(ROOT / "slipway"), "tools", "-s", stack, "--json"],
        env=os.environ | {"SLIPWAY_CACHE": str(cache)},
        capture_output=True,
        check=True,
    ).stdout
    found = Counter(str(tool["source"]) for tool in json.loads(listed)["tools"])
    return ", ".join(f"{source} {count}" for source, count in sorted(found.items()))


def up(stack: str, cache: Path, watch: Watch, variables: dict[str, str]) -> dict[str, Any]:
    """The document at the end of `up --json`; exits with `up`'s code if it fails."""
    with subprocess.Popen(
        [str(ROOT / "slipway"), "up", "-s", stack, "--json"],
        cwd=ROOT,
        env=os.environ | variables | {"SLIPWAY_CACHE": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        bufsize=1,
    ) as process:
        assert process.stdout is not None
        progress = threading.Thread(target=watch.read, args=(process.stderr,))
        progress.start()
        printed = process.stdout.read()
        progress.join()
        watch.seen("(end)")
    if process.returncode:
        sys.exit(process.returncode)
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def size(folder: Path) -> int:
    """Bytes on the disk; a file with several hard links counts once."""
    return int(subprocess.check_output(["du", "-sk", str(folder)]).split()[0]) * 1024


def parts(cache: Path) -> list[tuple[str, int]]:
    """The folders of the cache with what each adds; what several share counts in the first."""
    folders = sorted(each for each in cache.iterdir() if each.is_dir())
    printed = subprocess.check_output(["du", "-sk", *map(str, folders)], text=True)
    taken = (line.split("\t", 1) for line in printed.splitlines())
    return [(Path(folder).name, int(kib) * 1024) for kib, folder in taken]


if __name__ == "__main__":
    main()
