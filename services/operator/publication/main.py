"""Puts what elastic nodes run into the environment's bucket.

    publish.py apply    document in SLIPWAY_DOCUMENT (schemas/publication.schema.json)

Artifacts are named by what they contain, so those that are there are not sent again. Environments
are sent with packages for each Python that a host may have, as far as the cache has them. The
user's own AWS command line sends them, with the user's own credentials. Environment: SLIPWAY_CACHE.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import aws_command
from delivery import archive
from delivery.archive import Part
from delivery.fitness import MEBIBYTE, PYTHONS
from program.document import JsonObject, parsing, read_document
from program.errors import HostError, InputError, exit_code
from program.folders import Folders
from program.waiting import say

SCHEMA = "publication.schema.json"
SCHEMA_VERSION = 1
NOT_THERE = ("404", "Not Found", "NoSuchKey")
# S3 wants to know the size of an object of more than 50 GB that comes through a pipe.
HEADROOM = 1.2


@dataclass(frozen=True)
class Publication:
    bucket: str
    region: str
    prefix: str
    artifacts: tuple[str, ...]
    only_python: frozenset[str]  # environments that have packages for one Python only


def read_publication(document: JsonObject) -> Publication:
    with parsing(SCHEMA):
        return Publication(
            bucket=document["bucket"],
            region=document["region"],
            prefix=document["prefix"],
            artifacts=tuple(document["artifacts"]),
            only_python=frozenset(document["of_one_python"]),
        )


def key_of(publication: Publication, part: Part) -> str:
    """As services/aws/boot.py asks for it."""
    if part.is_of_an_environment:
        return f"{publication.prefix}/{part.artifact}/{part.python}.tar"
    return f"{publication.prefix}/{part.artifact}.tar"


def parts_of(publication: Publication, own: str) -> Iterator[Part]:
    """`own`: the Python of the environments in the cache, "3.11"."""
    for artifact in publication.artifacts:
        part = Part(artifact, own)
        if part.is_of_an_environment and artifact not in publication.only_python:
            yield from (Part(artifact, python) for python in PYTHONS)
        else:
            yield part


def apply(folders: Folders, publication: Publication, own: str) -> None:
    sent = 0
    for part in parts_of(publication, own):
        key = key_of(publication, part)
        if _is_there(publication, key):
            continue
        size = archive.size_bytes(folders.cache, part)
        say(f"{part.artifact} for Python {part.python} ({size // MEBIBYTE} MiB)")
        _send(folders, publication, part, key, size)
        sent += 1
    say(f"{publication.bucket}: has all of {len(publication.artifacts)} artifacts, {sent} are new")


def _is_there(publication: Publication, key: str) -> bool:
    place = ("--bucket", publication.bucket, "--key", key)
    done = aws_command.run(publication.region, "s3api", "head-object", *place)
    if done.returncode == 0:
        return True
    said = done.stderr.decode(errors="replace")
    if any(each in said for each in NOT_THERE):
        return False
    raise HostError(f"{publication.bucket} cannot be asked: {said.strip()}")


def _send(folders: Folders, publication: Publication, part: Part, key: str, size: int) -> None:
    """An object appears whole or not at all: S3 keeps nothing of an upload that is cut off."""
    command = [*aws_command.command(publication.region), "s3", "cp", "--no-progress", "-"]
    command += [f"s3://{publication.bucket}/{key}", "--expected-size", str(int(size * HEADROOM))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        try:
            archive.write(folders.cache, [part], process.stdin)
            process.stdin.close()
        except BrokenPipeError:  # its own error says why
            pass
        except BaseException:
            process.kill()  # or S3 would take what has come for the whole
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise HostError(f"{key} cannot be put into {publication.bucket}: {said}")


def run(arguments: list[str]) -> None:
    if arguments != ["apply"]:
        raise InputError("usage: publish.py apply")
    document = read_document(SCHEMA_VERSION)
    with parsing(SCHEMA):
        major, minor = document["python"]
    apply(Folders.from_environment(), read_publication(document), f"{major}.{minor}")


def main() -> int:
    return exit_code(lambda: run(sys.argv[1:]))
