"""The weights step: keeps a complete folder, else fetches, verifies, converts and publishes it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replica.errors import InputError, RunError
from replica.journal import Journal

from preparation.conversion import convert_gguf
from preparation.document import PackageSource, PathSource, WeightsDocument, load_document
from preparation.errors import SourceError, explained
from preparation.folder import MANIFEST, exclusive, problem_with, publish
from preparation.package import fetch_file
from preparation.words import say

HEARTBEAT_S = 5.0


def main() -> int:
    """0 when the folder is complete, 1 for a failure of this machine, 2 for wrong input."""
    parser = argparse.ArgumentParser(description="Prepare a model's weights on this host.")
    parser.add_argument("--document", type=Path, required=True, help="schemas/weights.schema.json")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    journal = Journal()
    try:
        document = load_document(arguments.document)
        if not os.environ.get("SLIPWAY_RUNTIME"):
            raise InputError("environment: SLIPWAY_RUNTIME is not set")
        prepare(document, Path(os.environ["SLIPWAY_RUNTIME"]), journal)
    except InputError as error:
        _tell(journal, error)
        return 2
    except RunError as error:
        _tell(journal, error)
        return 1
    except OSError as error:
        _tell(journal, explained(error))
        return 1
    return 0


def _end(number: int, _frame: object) -> None:
    """Raises, so that a download ends as well and nothing half-made stays."""
    sys.exit(128 + number)


def _tell(journal: Journal, error: InputError | RunError) -> None:
    """Reports to programs on stdout, and to people on stderr."""
    facts = {name: vars(error)[name] for name in ("key", "fix") if name in vars(error)}
    journal.error(str(error), **facts)
    say(f"{error}\n" + (f"fix: {facts['fix']}\n" if "fix" in facts else ""))


def prepare(document: WeightsDocument, runtime: Path, journal: Journal) -> None:
    """Makes sure that the document's folder is complete. Only one run per host at a time."""
    folder = runtime / document.directory
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with _heartbeat(journal, "waiting_for_lock"):
            held.enter_context(exclusive(folder.parent / f".{folder.name}.lock"))
        if folder.exists():
            with _heartbeat(journal, "verifying"):
                problem = problem_with(folder, document.source_json)
            if problem is None:
                journal.progress("ready", directory=str(document.directory))
                return
            journal.warning("preparing the weights again", reason=problem)
        partial = folder.parent / f".{folder.name}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)  # of a killed run
            _fill(partial, document, runtime / "downloads", journal)
            with _heartbeat(journal, "writing_manifest"):
                publish(partial, folder, document.source_json)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    journal.progress("ready", directory=str(document.directory))


def _fill(partial: Path, document: WeightsDocument, downloads: Path, journal: Journal) -> None:
    if isinstance(document.source, PathSource):
        _check_transformers_folder(document.source.path)
        with _heartbeat(journal, "copying"):
            ignored = shutil.ignore_patterns(MANIFEST)
            shutil.copytree(document.source.path, partial, ignore=ignored)
        return
    _fill_from_package(partial, document.source, downloads, journal)


def _fill_from_package(
    partial: Path, source: PackageSource, downloads: Path, journal: Journal
) -> None:
    partial.mkdir()
    packed = partial / source.file
    with _heartbeat(journal, "downloading") as facts:
        fetch_file(
            source,
            downloads,
            packed,
            lambda received, of: facts.update(received_bytes=received, total_bytes=of),
        )
    with _heartbeat(journal, "converting"):
        _convert(packed, partial)
    packed.unlink()


def _convert(packed: Path, partial: Path) -> None:
    try:
        convert_gguf(packed, partial)
    except (ValueError, KeyError, NotImplementedError) as error:  # what transformers cannot read
        raise SourceError(
            "source.file",
            f"{packed.name} cannot be converted: {error}",
            fix="use a GGUF file of an architecture that transformers reads",
        ) from error


def _check_transformers_folder(path: Path) -> None:
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise SourceError(
            "source.path",
            f"{path} has no config.json and *.safetensors",
            fix="name a transformers folder: config.json, safetensors and the tokenizer's files",
        )


@contextlib.contextmanager
def _heartbeat(journal: Journal, phase: str) -> Iterator[dict[str, Any]]:
    """Reports a phase at its start and every few seconds while it lasts, with the newest facts."""
    journal.progress(phase)
    done = threading.Event()
    facts: dict[str, Any] = {}

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            journal.progress(phase, **facts)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield facts
    finally:
        done.set()
        thread.join()
