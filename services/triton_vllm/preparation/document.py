"""The document of the weights step (schemas/weights.schema.json) as typed values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from replica.errors import InputError

from preparation.errors import SourceError
from preparation.folder import FileFacts, files_of

SCHEMA_VERSION = 2
ACCEPTED_VERSIONS = (SCHEMA_VERSION - 1, SCHEMA_VERSION)

PINNED_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")
SHA256 = re.compile(r"[0-9a-f]{64}")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{40}")
BUCKET_URL = re.compile(r"s3://([^/]+)/(.+)")

FILES_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """A GGUF file inside a wheel of the user's package registry."""

    package: str  # "name==version"
    file: str
    sha256: str  # of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSource:
    """A transformers folder on this host."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """A repository of the model hub."""

    repository: str  # "owner/name"
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSource:
    """A transformers folder in an object store. `revision` names what is in it."""

    bucket: str
    prefix: str  # ends with "/"
    revision: str


Source = PackageSource | PathSource | HubSource | BucketSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the source is reached, which does not change what it holds."""

    endpoint: str | None = None  # of a mirror; None for the public one
    credentials: str | None = None  # the path of the Nomad variable that has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    files_at_once: int = FILES_AT_ONCE
    bytes_per_s: int | None = None  # of all files together


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsDocument:
    """`files` are the expected files from the model file; None if it lists none."""

    source: Source
    source_json: Mapping[str, Any]  # as written: kept in the manifest
    directory: PurePosixPath  # relative to the store
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    files: Mapping[str, FileFacts] | None = None


def load_document(path: Path) -> WeightsDocument:
    """Read a document. Raises SourceError for its source, else InputError naming file and field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content["schema_version"]
        if version not in ACCEPTED_VERSIONS:
            raise InputError(f"schema_version {version} is not one of {ACCEPTED_VERSIONS}")
        source = content["source"]
        return WeightsDocument(
            source=_source(source),
            source_json=source,
            directory=_directory(content["directory"]),
            access=Access(**content.get("access", {})),
            limits=Limits(**content.get("limits", {})),
            files=files_of(content["files"]) if "files" in content else None,
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise InputError(f"{path}: {error.args[0]}: missing") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: not a weights document: {error}") from error
    except SourceError:
        raise
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _source(source: Mapping[str, Any]) -> Source:
    if "hf" in source:
        return _hub_source(str(source["hf"]), str(source["revision"]))
    if "s3" in source:
        return _bucket_source(str(source["s3"]), str(source["revision"]))
    if "path" in source:
        path = Path(str(source["path"]))
        if not path.is_absolute():
            raise SourceError("source.path", f"{path} is not absolute", fix="begin it with /")
        return PathSource(path=path)
    return _package_source(str(source["package"]), str(source["sha256"]), str(source["file"]))


def _hub_source(repository: str, commit: str) -> HubSource:
    if not REPOSITORY.fullmatch(repository):
        raise SourceError(
            "source.hf", f"{repository!r} is not owner/name", fix="e.g. Qwen/Qwen2.5-7B-Instruct"
        )
    if not COMMIT.fullmatch(commit):
        raise SourceError(
            "source.revision",
            f"{commit!r} is not a commit of 40 hexadecimal digits",
            fix="a branch can change: use the full commit hash (Files and versions, then History)",
        )
    return HubSource(repository=repository, commit=commit)


def _bucket_source(url: str, revision: str) -> BucketSource:
    parts = BUCKET_URL.fullmatch(url)
    if parts is None:
        raise SourceError(
            "source.s3", f"{url!r} is not s3://bucket/folder", fix="e.g. s3://models/qwen2.5-7b/"
        )
    return BucketSource(bucket=parts[1], prefix=f"{parts[2].rstrip('/')}/", revision=revision)


def _package_source(package: str, sha256: str, file: str) -> PackageSource:
    if not PINNED_PACKAGE.fullmatch(package):
        raise SourceError(
            "source.package", f"{package!r} is not name==version", fix="pin one version"
        )
    if not SHA256.fullmatch(sha256):
        raise SourceError(
            "source.sha256",
            f"{sha256!r} is not 64 hexadecimal digits",
            fix="write what `sha256sum` prints of the file",
        )
    if file in ("", ".", "..") or "/" in file:
        raise SourceError(
            "source.file", f"{file!r} is not a file name", fix="write its name without a folder"
        )
    return PackageSource(package=package, file=file, sha256=sha256)


def _directory(text: str) -> PurePosixPath:
    directory = PurePosixPath(text)
    if directory.is_absolute() or ".." in directory.parts or len(directory.parts) != 2:
        raise InputError(f"directory: {text!r} is not <folder>/<name> below the store")
    return directory
