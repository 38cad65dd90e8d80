"""What a source had when it was first listed and first fetched: its content must not change
afterwards.

A commit of the hub cannot change, but a mirror may be wrong about it. A folder of a bucket can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from preparation.document import WeightsDocument
from preparation.errors import SourceError
from preparation.folder import FileFacts, files_json, files_of, write_json
from preparation.remote.source import Remote, RemoteFile


class Pins:
    """Two files beside the model's folder: they stay when the folder is removed. What the model
    file lists takes precedence over what was fetched at first."""

    def __init__(self, remote: Remote, document: WeightsDocument, folder: Path) -> None:
        self._remote = remote
        self._given = document.files
        self._listing = folder.with_name(f".{folder.name}.listing.json")
        self._manifest = folder.with_name(f".{folder.name}.manifest.json")

    def checked(self, files: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
        """The files, each with its expected checksum. Remembers the listing before the first byte
        is fetched.

        Raises SourceError if the source lists something else than it must have.
        """
        expected = self._given or self._fetched()
        if expected is None:
            self._check_listing(files)
            return dict(files)
        sizes = {name: file.size_bytes for name, file in files.items()}
        self._compare(sizes, {name: facts.size_bytes for name, facts in expected.items()})
        return {
            name: replace(file, expected_sha256=expected[name].sha256)
            for name, file in files.items()
        }

    def check_content(self, files: Mapping[str, FileFacts]) -> None:
        """Raises SourceError if what was fetched is not what the source must have. Remembers what
        was fetched at first."""
        expected = self._given or self._fetched()
        if expected is not None:
            self._compare(files, expected)
        write_json(self._manifest, files_json(files))

    def _check_listing(self, files: Mapping[str, RemoteFile]) -> None:
        now = {name: [file.size_bytes, file.version] for name, file in files.items()}
        if self._listing.exists():
            self._compare(now, json.loads(self._listing.read_text(encoding="utf-8")))
        else:
            write_json(self._listing, now)

    def _fetched(self) -> dict[str, FileFacts] | None:
        if not self._manifest.exists():
            return None
        return files_of(json.loads(self._manifest.read_text(encoding="utf-8")))

    def _compare(self, now: Mapping[str, object], expected: Mapping[str, object]) -> None:
        names = sorted(now.keys() | expected.keys())
        different = [name for name in names if now.get(name) != expected.get(name)]
        if not different:
            return
        more = f" and {len(different) - 1} more" if len(different) > 1 else ""
        since = "when this host fetched it first" if self._given is None else "the model file says"
        raise SourceError(
            "source.revision" if self._given is None else "source.files",
            f"{self._remote.description} has other files than {since}: {different[0]}{more}",
            fix=self._fix(),
        )

    def _fix(self) -> str:
        if self._given is not None:
            return "correct source.files, or restore the files there"
        remembered = str(self._listing).removesuffix("listing.json")
        return (
            "set a new source.revision for the new content; or, if no replica ever served the old"
            f" content, run rm -r {remembered}* on this host to accept it"
        )
