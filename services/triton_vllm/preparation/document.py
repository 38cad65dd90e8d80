"""The document of the weights step (schemas/weights.schema.json) as typed values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from replica.errors import InputError

from preparation.errors import SourceError

SCHEMA_VERSION = 1
ACCEPTED_VERSIONS = (SCHEMA_VERSION - 1, SCHEMA_VERSION)

PINNED_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")
SHA256 = re.compile(r"[0-9a-f]{64}")

NOT_YET = {
    "hf": "a client of the model hub and its token",
    "s3": "an object store client and its credentials",
}
USE_ANOTHER = "use package: or path:, for example after downloading the model by hand"


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


Source = PackageSource | PathSource


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsDocument:
    source: Source
    source_json: Mapping[str, Any]  # as written: kept in the manifest
    directory: PurePosixPath  # relative to the runtime folder


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
    for kind, missing in NOT_YET.items():
        if kind in source:
            raise SourceError(
                f"source.{kind}", f"not supported yet, it needs {missing}", fix=USE_ANOTHER
            )
    if "path" in source:
        path = Path(str(source["path"]))
        if not path.is_absolute():
            raise SourceError("source.path", f"{path} is not absolute", fix="begin it with /")
        return PathSource(path=path)
    package, sha256 = str(source["package"]), str(source["sha256"])
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
    file = str(source["file"])
    if file in ("", ".", "..") or "/" in file:
        raise SourceError(
            "source.file", f"{file!r} is not a file name", fix="write its name without a folder"
        )
    return PackageSource(package=package, file=file, sha256=sha256)


def _directory(text: str) -> PurePosixPath:
    directory = PurePosixPath(text)
    if directory.is_absolute() or ".." in directory.parts or len(directory.parts) != 2:
        raise InputError(f"directory: {text!r} is not <folder>/<name> below the runtime folder")
    return directory
