"""This gateway beside others, over the same simulated replicas, as markdown tables with bars.

    .venv/bin/python bench/gateway/peers.py [--from REVISION] [--pairs 5] [--concurrency 1 16 64]
        [--traces NAME ...] [--contenders NAME ...] [--record FILE] [--picture FILE] [--json]

Contenders take turns within one go, each with texts of its own, so that none finds what another
has left in the engines' caches. `--from` adds the gateway of an earlier revision. The gateways of
others come from the package index, into an environment of their own; the output says which are left
out, and why. With `--record` every run is added to a file, and those that are there are not
measured again: a go that was interrupted can be continued.

The engines are simulated, and so are all latencies: they compare gateways and are no results of any
hardware. Clients and engines share the cores with the gateways, so a gateway is judged by its own
processor time. Each pair of everything takes about 35 minutes, a third of it for litellm. Exits
with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.gateway.bars import bars, judged, ours  # noqa: E402
from bench.gateway.contender import Contender, LeftOutError, Place, Running  # noqa: E402
from bench.gateway.contenders import BEFORE, NAMES, contenders  # noqa: E402
from bench.gateway.load import ANSWER_TOKENS, Address, answers, encoded  # noqa: E402
from bench.gateway.measurement import Run, measured  # noqa: E402
from bench.gateway.pictures import picture  # noqa: E402
from bench.gateway.processes import last_lines  # noqa: E402
from bench.gateway.replicas import COUNT, MODEL, NETWORK, described, replicas  # noqa: E402
from bench.gateway.tables import bar_table, trace_table  # noqa: E402
from bench.gateway.traces import TRACES, trace, unrelated  # noqa: E402
from bench.machine import loop_factor, measured_on  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

SEED = 1
ANSWERS_S = 90.0  # litellm imports for 10 s
_FIRST_HOST = 101  # of the contenders, on NETWORK


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what was started
    before = loop_factor()
    runs, left_out = _recorded(options.record), {}
    with tempfile.TemporaryDirectory(prefix="slipway-peers-") as folder, ExitStack() as stack:
        cache, path = default_cache(), Path(folder)
        addresses = stack.enter_context(replicas(cache, path))
        found = contenders(cache, path, options.revision)
        chosen = {name: found[name] for name in options.contenders if name in found}
        if BEFORE in options.contenders and BEFORE not in found:
            left_out[BEFORE] = "no --from REVISION was given"
        started = stack.enter_context(_started(chosen, addresses, path, left_out))
        for run in _measured(options, chosen, started, addresses, runs):
            runs.append(run)
            _record(options.record, run)
    return _report(options, runs, left_out, measured_on(before))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", help="main of before")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=list(TRACES))
    parser.add_argument("--contenders", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--record", type=Path, help="a file of runs, one JSON line each")
    parser.add_argument("--picture", type=Path, help="a PNG or SVG file to write")
    parser.add_argument("--json", action="store_true", help="instead of tables")
    return parser.parse_args()


@contextmanager
def _started(
    chosen: Mapping[str, Contender],
    addresses: Sequence[Address],
    folder: Path,
    left_out: dict[str, str],
) -> Iterator[dict[str, Running]]:
    """All at once, until the end; adds those that do not answer to `left_out`."""
    started: dict[str, Running] = {}
    with ExitStack() as stack:
        for number, (name, contender) in enumerate(chosen.items()):
            place = Place(
                host=f"{NETWORK}.{_FIRST_HOST + number}",
                folder=folder / f"contender-{number}",
                replicas=addresses,
            )
            place.folder.mkdir()
            with ExitStack() as own:
                try:
                    running = own.enter_context(contender.start(place))
                    _wait_for(running)
                except LeftOutError as error:
                    left_out[name] = str(error)
                else:
                    started[name] = running
                    stack.push(own.pop_all())
            print(f"{name}: {left_out.get(name, 'ready')}", file=sys.stderr)
        yield started


def _wait_for(running: Running) -> None:
    """Returns once it has answered. Raises LeftOutError."""
    (request,) = unrelated(1, salt="ready")
    ready = encoded(request, model=MODEL, host=running.address[0])
    deadline_s = time.monotonic() + ANSWERS_S
    while (answer := asyncio.run(answers(running.address, [ready], [None], 1))[0]).error:
        ended = any(process.poll() is not None for process in running.processes)
        if ended or time.monotonic() > deadline_s:
            raise LeftOutError(f"does not answer ({answer.error}):\n{last_lines(running.log)}")
        time.sleep(0.2)


def _measured(
    options: argparse.Namespace,
    chosen: Mapping[str, Contender],
    started: Mapping[str, Running],
    addresses: Sequence[Address],
    known: Sequence[Run],
) -> Iterator[Run]:
    """What is not known yet. Every second pair is in the opposite order."""
    have = {(run.contender, run.trace, run.concurrency, run.pair) for run in known}
    every = itertools.product(range(options.pairs), options.traces, options.concurrency)
    for pair, name, concurrency in every:
        for contender in list(started) if pair % 2 == 0 else reversed(list(started)):
            if (contender, name, concurrency, pair) in have:
                continue
            if chosen[contender].is_measured_at(concurrency):
                yield measured(
                    started[contender],
                    addresses,
                    trace(name, seed=SEED + pair, salt=f"{contender}/{concurrency}"),
                    contender=contender,
                    name=name,
                    concurrency=concurrency,
                    pair=pair,
                )


def _recorded(path: Path | None) -> list[Run]:
    if path is None or not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def _record(path: Path | None, run: Run) -> None:
    print(
        f"pair {run.pair + 1}, {run.trace}, {run.concurrency} in flight, {run.contender}:"
        f" {run.seconds:.1f} s, TTFT p50 {run.ttft_p50_ms:.1f} ms, hits {run.hit_ratio:.1%},"
        f" CPU {run.gateway_cpu_ms:.2f} ms {run.errors or ''}",
        file=sys.stderr,
    )
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")


def _report(
    options: argparse.Namespace, runs: Sequence[Run], left_out: Mapping[str, str], machine: str
) -> int:
    subject = ours(runs)
    concurrencies = sorted({run.concurrency for run in runs})
    every = bars(subject, replicas=COUNT, concurrencies=concurrencies)
    verdicts = judged(runs, [bar for bar in every if bar.trace in options.traces])
    shown = [name for name in NAMES if any(run.contender == name for run in runs)]
    setting = (
        f"{described()}. Closed-loop clients, answers of {ANSWER_TOKENS} tokens. Latencies are"
        " simulated: they compare gateways and are no results of any hardware."
    )
    if options.picture:
        title = "Simulated replicas: medians of the pairs"
        picture(runs, shown, title).savefig(options.picture)
    if options.json:
        document = {
            "machine": machine,
            "setting": setting,
            "left_out": left_out,
            "runs": [_without_nan(asdict(run)) for run in runs],
            "bars": [asdict(verdict) for verdict in verdicts],
        }
        print(json.dumps(document, indent=2))
        return int(any(each.met is False for each in verdicts))
    print(f"{machine}\n\n{setting}")
    for name, reason in left_out.items():
        print(f"Left out: {name}: {reason}")
    for name in options.traces:
        pairs = len({run.pair for run in runs if run.trace == name})
        print(f"\n## {name}\n\n{TRACES[name].__doc__} Pairs: {pairs}.\n")
        print("\n".join(trace_table([run for run in runs if run.trace == name], shown)))
    print("\n## Bars\n")
    print("\n".join(bar_table(verdicts, subject)))
    return int(any(each.met is False for each in verdicts))


def _without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }


if __name__ == "__main__":
    sys.exit(main())
