"""The weights step: keeps a complete folder, else fetches, verifies, converts and publishes it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

from replica.errors import InputError, RunError
from replica.journal import Journal

from preparation.conversion import convert_gguf
from preparation.document import (
    BucketSource,
    HubSource,
    PackageSource,
    PathSource,
    WeightsDocument,
    load_document,
)
from preparation.errors import MachineError, SourceError, explained
from preparation.folder import MANIFEST, exclusive, problem_with, publish
from preparation.package import fetch_file
from preparation.phases import heartbeat
from preparation.words import say

IN_CONTAINERS = Path("/.dockerenv")
MOUNTS = Path("/proc/self/mountinfo")


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
        runtime = Path(os.environ["SLIPWAY_RUNTIME"])
        prepare(document, runtime, _store() or runtime, journal)
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


def _store() -> Path | None:
    """The pool's model store. It is never made here: without its disk, weights would fill another
    one."""
    if not os.environ.get("SLIPWAY_STORE"):
        return None
    store = Path(os.environ["SLIPWAY_STORE"])
    if not _is_a_disk(store):
        raise MachineError(
            f"nothing is mounted at {store}, the pool's model_store",
            fix="mount its disk there (and list it in /etc/fstab)",
        )
    return store


def _is_a_disk(folder: Path) -> bool:
    """In a container every folder of the host is a mount: there it must be the root of a file
    system, or on another one than the runtime folder, from which this file comes."""
    if not (folder.is_mount() and IN_CONTAINERS.exists()):
        return folder.is_mount()
    # id parent device root mount-point …
    mounts = (line.split() for line in MOUNTS.read_text(encoding="utf-8").splitlines())
    roots = {fields[3] for fields in mounts if fields[4] == str(folder)}
    return "/" in roots or folder.stat().st_dev != Path(__file__).stat().st_dev


def _end(number: int, _frame: object) -> None:
    """Raises, so that a download ends as well and nothing half-made stays."""
    sys.exit(128 + number)


def _tell(journal: Journal, error: InputError | RunError) -> None:
    """Reports to programs on stdout, and to people on stderr."""
    facts = {name: vars(error)[name] for name in ("key", "fix") if name in vars(error)}
    journal.error(str(error), **facts)
    say(f"{error}\n" + (f"fix: {facts['fix']}\n" if "fix" in facts else ""))


def prepare(document: WeightsDocument, runtime: Path, store: Path, journal: Journal) -> None:
    """Makes sure that the document's folder is complete. Only one run per host at a time."""
    folder = store / document.directory
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with heartbeat(journal, "waiting_for_lock"):
            held.enter_context(exclusive(folder.parent / f".{folder.name}.lock"))
        if not _is_complete(folder, document, journal):
            _make(folder, document, runtime, journal)
    journal.progress("ready", directory=str(document.directory))


def _is_complete(folder: Path, document: WeightsDocument, journal: Journal) -> bool:
    if not folder.exists():
        return False
    with heartbeat(journal, "verifying"):
        problem = problem_with(folder, document.source_json, document.files)
    if problem is not None:
        journal.warning("preparing the weights again", reason=problem)
    elif _is_fetched(document):  # by a run that was killed at its very end
        shutil.rmtree(folder.with_name(f".{folder.name}.fetch"), ignore_errors=True)
    return problem is None


def _is_fetched(document: WeightsDocument) -> bool:
    """Whether its source is reached over the network, by clients."""
    return isinstance(document.source, HubSource | BucketSource)


def _make(folder: Path, document: WeightsDocument, runtime: Path, journal: Journal) -> None:
    if _is_fetched(document):
        # Its clients are in the environment that fetches, not in the one that converts.
        from preparation.remote.fetch_folder import fetch_folder  # noqa: PLC0415

        fetch_folder(document, folder, journal)
        return
    partial = folder.parent / f".{folder.name}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a killed run
        _fill(partial, document, runtime / "downloads", journal)
        with heartbeat(journal, "writing_manifest"):
            publish(partial, folder, document.source_json)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fill(partial: Path, document: WeightsDocument, downloads: Path, journal: Journal) -> None:
    if isinstance(document.source, PathSource):
        _check_transformers_folder(document.source.path)
        with heartbeat(journal, "copying"):
            ignored = shutil.ignore_patterns(MANIFEST)
            shutil.copytree(document.source.path, partial, ignore=ignored)
    elif isinstance(document.source, PackageSource):
        _fill_from_package(partial, document.source, downloads, journal)


def _fill_from_package(
    partial: Path, source: PackageSource, downloads: Path, journal: Journal
) -> None:
    partial.mkdir()
    packed = partial / source.file
    with heartbeat(journal, "downloading") as facts:
        fetch_file(
            source,
            downloads,
            packed,
            lambda received, of: facts.update(received_bytes=received, total_bytes=of),
        )
    with heartbeat(journal, "converting"):
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
