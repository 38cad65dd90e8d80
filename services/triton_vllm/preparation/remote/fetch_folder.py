"""A model's folder from a source that is reached over the network."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica.errors import InputError
from replica.journal import Journal

from preparation.document import BucketSource, HubSource, WeightsDocument
from preparation.errors import MachineError, SourceError
from preparation.folder import FileFacts, publish, write_json
from preparation.phases import heartbeat
from preparation.remote.credentials import credentials_of
from preparation.remote.fetch import Fetch, Received
from preparation.remote.pins import Pins
from preparation.remote.retries import patiently, reachable
from preparation.remote.selection import INDEX, check_index, model_files
from preparation.remote.source import ChangedError, Remote, RemoteFile
from preparation.remote.throttle import Throttle

FIRST_PAUSE_S = "SLIPWAY_RETRY_S"  # environment variable
GIBIBYTE = 1 << 30
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def fetch_folder(document: WeightsDocument, folder: Path, journal: Journal) -> None:
    """Publishes the complete folder. What an interrupted run has received is continued.

    Raises SourceError for what the user can mend, MachineError for network and disk.
    """
    remote = _remote(document)
    pins = Pins(remote, document, folder)
    first_pause_s = float(os.environ.get(FIRST_PAUSE_S, "1"))
    with heartbeat(journal, "listing"):
        with reachable(remote):
            listed = patiently(first_pause_s)(remote.listing)
        files = pins.checked(model_files(remote, listed, document.files))
    partial = folder.with_name(f".{folder.name}.fetch")
    _keep_what_is_whole(folder, partial)
    _forget_stale(partial, files)
    with heartbeat(journal, "downloading") as facts:
        fetch = Fetch(
            remote=remote,
            folder=partial,
            at_once=document.limits.files_at_once,
            throttle=Throttle(document.limits.bytes_per_s),
            first_pause_s=first_pause_s,
            received=_counting(facts, files),
        )
        present = fetch.present_bytes(files.values())
        fetch.received(present)
        _check_room(partial, sum(file.size_bytes for file in files.values()) - present)
        fetched = _all(fetch, remote, files)
    pins.check_content(fetched)
    with heartbeat(journal, "writing_manifest"):
        known = {name: facts.sha256 for name, facts in fetched.items()}
        publish(fetch.files, folder, document.source_json, known)
        shutil.rmtree(partial)


def _remote(document: WeightsDocument) -> Remote:
    """The clients are imported where they are used: each takes a second."""
    credentials = credentials_of(document)
    if isinstance(document.source, HubSource):
        from preparation.remote.hub import Hub  # noqa: PLC0415

        return Hub(document.source, document.access, credentials)
    if isinstance(document.source, BucketSource):
        from preparation.remote.bucket import Bucket  # noqa: PLC0415

        return Bucket(
            document.source,
            document.access,
            credentials,
            connections=document.limits.files_at_once,
        )
    raise InputError(f"source: {document.source} is not fetched over the network")


def _all(fetch: Fetch, remote: Remote, files: Mapping[str, RemoteFile]) -> dict[str, FileFacts]:
    """The index of the weights comes first: it says whether the model is there as a whole."""
    try:
        if INDEX in files:
            fetch.one(files[INDEX])
            check_index(remote, fetch.files / INDEX, files)
        return fetch.all(files.values())
    except ChangedError as error:
        raise SourceError(
            "source.revision",
            f"{remote.description} changed while it was fetched: {error}",
            fix="set a new source.revision for the new content",
        ) from error


def _counting(facts: dict[str, Any], files: Mapping[str, RemoteFile]) -> Received:
    lock = threading.Lock()
    facts |= {"received_bytes": 0, "total_bytes": sum(f.size_bytes for f in files.values())}

    def count(size_bytes: int) -> None:
        with lock:
            facts["received_bytes"] += size_bytes

    return count


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise MachineError(
            f"{folder.parent} has {free / GIBIBYTE:.1f} GiB free, but {needed / GIBIBYTE:.1f} GiB"
            " remain to be fetched",
            fix="free some space there (`df -h` shows it), or mount a larger disk and name it in"
            " the pool's model_store.path",
        )


def _keep_what_is_whole(folder: Path, partial: Path) -> None:
    """Moves the files of a published folder, of which some are damaged, to what is fetched: each is
    verified there, and only the damaged ones are fetched again."""
    if folder.exists():
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        folder.rename(partial / "files")


def _forget_stale(folder: Path, files: Mapping[str, RemoteFile]) -> None:
    """Removes what an earlier run received of files that have another version now. Of those that
    were under way in another boot, too: after a power cut the end of a file may never have reached
    the disk, though its size did."""
    state = folder / "state.json"
    boot = BOOT_ID.read_text(encoding="ascii").strip()
    versions = {name: file.version for name, file in files.items()}
    before = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    if before.get("boot") != boot:
        shutil.rmtree(folder / "parts", ignore_errors=True)
    for name, version in before.get("versions", {}).items():
        if version != versions.get(name):
            (folder / "files" / name).unlink(missing_ok=True)
            (folder / "parts" / name).unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    write_json(state, {"boot": boot, "versions": versions})
