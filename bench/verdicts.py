"""Replicas whose verdict differs from that of an earlier revision, as a markdown table.

    .venv/bin/python bench/verdicts.py [--from REVISION]

Asks `slipway fit` of both revisions about every model and accelerator that both know, with the
published weights, FP8 and AWQ, and sequences of 8,192 tokens, on 1, 2, 4, 5 and 8 devices. Groups
what differs by what changed and why. Nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from bench.revisions import extract  # noqa: E402

# The last revision without errors of estimates and without starts of real servers.
BEFORE_ERRORS = "26de71a6"

Verdicts = Mapping[str, tuple[str, str]]  # "model on 2 L4" -> (verdict, first reason)

# A part of a reason -> what such reasons have in common.
KINDS = {
    "are left for the KV": "the error of the estimate decides",
    "not served here": "no engine for Neuron",
    "a vocabulary of": "the vocabulary cannot be divided",
    "that awq quantizes together": "its checkpoint is padded for its groups",
}

PROGRAM = """
import json, sys
from pathlib import Path
from slipway.config.catalog import load_catalog
from slipway.plan.figures import Layout, Precision
try:
    from slipway.planner.fit import Deployment, fit
except ImportError:  # an older revision
    from slipway.planner.memory.fit import Deployment, fit
catalog = load_catalog(Path(sys.argv[1]))
verdicts = {}
for model, architecture in catalog.models.items():
    published = architecture.published_weights
    for weights in dict.fromkeys((published, "fp8", "awq")):
        title = model if weights == published else f"{model} {weights}"
        for name in catalog.accelerators:
            for tensor in (1, 2, 4, 5, 8):
                answer = fit(
                    architecture,
                    Deployment(
                        accelerator=name,
                        layout=Layout(tensor=tensor),
                        precision=Precision(weights=weights),
                        max_len=min(8192, architecture.context),
                    ),
                    catalog.accelerators,
                )
                plain = "fits" if answer.feasible else "does_not_fit"
                found = getattr(answer, "verdict", plain)
                reason = answer.reasons[0] if answer.reasons else ""
                verdicts[f"{title} on {tensor} {name}"] = (found, reason)
json.dump(verdicts, sys.stdout)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", default=BEFORE_ERRORS)
    revision = parser.parse_args().revision
    with tempfile.TemporaryDirectory(prefix="slw-") as folder:
        extract(revision, Path(folder))
        before, now = verdicts_of(Path(folder)), verdicts_of(ROOT)
    both = [row for row in now if row in before]
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in both:
        (old, old_reason), (new, reason) = before[row], now[row]
        if old != new and (old, new) != ("does_not_fit", "cannot_run"):
            groups[old, new, kind_of(reason or old_reason)].append(row)
    changed = sum(map(len, groups.values()))
    print(f"Against {revision}: {changed} of {len(both)} replicas.\n")
    for (old, new, why), rows in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"## {words(old)}, now {words(new)}: {why}\n\n{len(rows)} replicas.\n")
        print("| model | on |\n|---|---|")
        for model, places in by_model(rows):
            print(f"| {model} | {', '.join(places)} |")
        print()


def verdicts_of(checkout: Path) -> Verdicts:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(checkout)],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return {row: (found, reason) for row, (found, reason) in json.loads(done.stdout).items()}


def kind_of(reason: str) -> str:
    """The reason in general words, else as it is."""
    return next((kind for part, kind in KINDS.items() if part in reason), reason)


def by_model(rows: list[str]) -> Iterator[tuple[str, list[str]]]:
    """("llama-3.1-8b", ["1 L4", "2 L4"]): the replicas of one model together."""
    places: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        model, _, where = row.partition(" on ")
        places[model].append(where)
    yield from places.items()


def words(verdict: str) -> str:
    return verdict.replace("_", " ")


if __name__ == "__main__":
    main()
