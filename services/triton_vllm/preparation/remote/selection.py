"""Which files of a folder or repository make the model that vLLM loads."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from preparation.errors import SourceError
from preparation.folder import MANIFEST
from preparation.remote.source import Remote, RemoteFile

# Configuration, weights, tokenizer, chat template, and the code of models that bring their own.
SUFFIXES = frozenset({".json", ".safetensors", ".txt", ".model", ".tiktoken", ".jinja", ".py"})
# The same weights once more, in the formats of other programs.
DUPLICATES = ("original", "onnx", "openvino", "metal", "coreml")
CONSOLIDATED = "consolidated"  # Mistral's own format, beside model-*.safetensors
INDEX = "model.safetensors.index.json"


def model_files(
    remote: Remote, listed: Iterable[RemoteFile], given: Collection[str] | None
) -> dict[str, RemoteFile]:
    """The model's files by name: those that are `given`, or what looks like them. Raises
    SourceError if they are no transformers folder."""
    if given is not None:
        files = {file.name: file for file in listed if file.name in given}
    else:
        files = _without_duplicates({f.name: f for f in listed if _belongs(f.name)})
    _check_names(remote, files)
    weights = [name for name in files if name.endswith(".safetensors")]
    lacks = [
        name
        for name, there in (("config.json", "config.json" in files), ("*.safetensors", weights))
        if not there
    ]
    if lacks:
        raise SourceError(
            remote.key,
            f"{remote.description} lacks {' and '.join(lacks)}",
            fix="name a folder in Hugging Face format: config.json, *.safetensors and the"
            " tokenizer's files at its top level",
        )
    return files


def check_index(remote: Remote, index: Path, names: Mapping[str, object]) -> None:
    """Raises SourceError if the index of the weights names a file that the source does not have, as
    while it is still being uploaded."""
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            remote.key,
            f"{remote.description} has a {INDEX} that is not one",
            fix="upload the model again, as transformers saves it",
        ) from error
    missing = sorted(set(shards) - set(names))
    if missing:
        raise SourceError(
            remote.key,
            f"{remote.description} lacks {len(missing)} of the files that its {INDEX} names, such"
            f" as {missing[0]}",
            fix="upload the whole model",
        )


def _belongs(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") and part != ".." for part in path.parts)
    duplicate = path.parts[:1] in [(folder,) for folder in DUPLICATES]
    return path.suffix in SUFFIXES and name != MANIFEST and not hidden and not duplicate


def _without_duplicates(files: dict[str, RemoteFile]) -> dict[str, RemoteFile]:
    consolidated = {
        name
        for name in files
        if name.startswith(CONSOLIDATED) and name.endswith((".safetensors", ".json"))
    }
    others = {name: file for name, file in files.items() if name not in consolidated}
    return others if any(name.endswith(".safetensors") for name in others) else files


def _check_names(remote: Remote, names: Collection[str]) -> None:
    """Refuses names that point outside the folder, and files that are folders of others."""
    for name in names:
        path = PurePosixPath(name)
        plain = path.as_posix() == name and "\\" not in name and "\0" not in name
        if not plain or path.is_absolute() or ".." in path.parts:
            raise SourceError(
                remote.key,
                f"{remote.description} has a file whose path is not plain, or points outside the"
                f" folder: {name!r}",
                fix="rename or remove it at the source",
            )
        if clash := next((str(parent) for parent in path.parents if str(parent) in names), None):
            raise SourceError(
                remote.key,
                f"{remote.description} has both {clash} and {name}",
                fix="remove one of them at the source",
            )
