"""Brings what a host runs from the operator's cache to the host, once.

    deliver.py apply      document in SLIPWAY_DOCUMENT (schemas/delivery.schema.json)
    deliver.py remove     remove it, unless another environment on that host uses it
    deliver.py examine    change nothing; print as JSON what the host is and what it lacks

Artifacts are named by what they contain, so those that are there are not sent again; environments
also get packages for another Python if the host's has changed. All appear on the host at once and
whole. Private keys come from an ssh-agent (SSH_AUTH_SOCK).

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths); SLIPWAY_CHECKOUT, below
which an image's archive is found (the working directory if not set).
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import asdict

from program.document import read_document
from program.errors import InputError, exit_code
from program.folders import Folders
from program.waiting import say, wait_until

from delivery import archive
from delivery.archive import Part
from delivery.containers import bring_image, remove_images
from delivery.document import SCHEMA_VERSION, Delivery, read_delivery
from delivery.fitness import (
    MEBIBYTE,
    PYTHONS,
    Found,
    look,
    must_fit,
    must_have_room,
    requirements,
    room,
)
from delivery.ssh import Connection, UnreachableError, connected

BETWEEN_LOOKS_S = 2  # at a machine that starts
REPORT_VERSION = 1  # of what `examine` prints (schemas/host-report.schema.json)

# The list of an environment's artifacts is written last; removals of other environments read it.
RECEIVE = """
set -e
umask 022
mkdir -p {folder}
cd {folder}
find . -maxdepth 1 -name '.partial-{environment}-*' -exec rm -rf {{}} +
partial=$(mktemp -d ./.partial-{environment}-XXXXXX)
trap 'rm -rf "$partial"' EXIT
tar -x -f - -C "$partial" --no-same-owner
[ -e "$partial/{last}" ] || {{ echo 'the archive ended too early' >&2; exit 1; }}
sync -f .
for artifact in {artifacts}; do
  mkdir -p "$(dirname "$artifact")"
  [ -e "$artifact" ] || mv "$partial/$artifact" "$artifact"
done
"""
RECORD = """
set -e
mkdir -p {folder}/environments
printf '%s\\n' {artifacts} > {folder}/environments/.{environment}
mv {folder}/environments/.{environment} {folder}/environments/{environment}
"""
REMOVE = """
cd {folder} 2>/dev/null || exit 0
rm -f environments/{environment}
for artifact in {artifacts}; do
  grep -qxF -- "$artifact" environments/* 2>/dev/null || rm -rf "$artifact"
done
find . -depth -mindepth 1 -type d -empty -delete
rmdir {folder} 2>/dev/null || true
"""


def apply(folders: Folders, delivery: Delivery) -> None:
    with connected(delivery.host, delivery.place, delivery.jump) as connection:
        found = _first_look(connection, delivery)
        must_fit(found, delivery)
        missing = missing_parts(found, delivery)
        sizes = {part: archive.size_bytes(folders.cache, part) for part in missing}
        must_have_room(found, delivery, sum(sizes.values()))
        if missing:
            for part, size in sizes.items():
                say(f"{delivery.host}: {part.artifact} ({size // MEBIBYTE} MiB)")
            _send(folders, delivery, connection, missing)
        if delivery.image is not None:
            bring_image(connection, delivery.image, delivery.host, delivery.environment)
        elif delivery.accelerators is not None:  # its engines may have run in containers before
            remove_images(connection, delivery.environment)
        connection.run(_script(RECORD, delivery, delivery.artifacts))
    count = len(delivery.artifacts)
    # Pulumi keeps this line, in which `up` reads the version: cli/pulumi/host_repairs.py.
    say(f"{delivery.host}: has all of {count} artifacts, for Python {found.python}")


def _first_look(connection: Connection, delivery: Delivery) -> Found:
    """Once the host answers with its own key: a new machine has another one at first."""
    found: list[Found] = []

    def seen() -> str | None:
        try:
            found.append(look(connection, delivery))
        except UnreachableError as error:
            if not delivery.boots_within_s:
                raise
            time.sleep(BETWEEN_LOOKS_S)
            return error.said
        return None

    wait_until(f"{delivery.host} starts", seen, delivery.boots_within_s)
    return found[0]


def remove(delivery: Delivery) -> None:
    with connected(delivery.host, delivery.place, delivery.jump) as connection:
        connection.run(_script(REMOVE, delivery, delivery.artifacts))
        if delivery.accelerators is not None:
            remove_images(connection, delivery.environment)
    say(f"{delivery.host}: tools, environments, code and images are removed")


def examine(folders: Folders, delivery: Delivery) -> None:
    """Every requirement, met or not: `apply` raises those that are not."""
    try:
        with connected(delivery.host, delivery.place, delivery.jump) as connection:
            found = look(connection, delivery)
    except UnreachableError as error:
        _report(unreachable=error.said, fix=error.fix)
        return
    missing = missing_parts(found, delivery)
    needed_bytes = sum(archive.size_bytes(folders.cache, part) for part in missing)
    checked = [*requirements(found, delivery), room(found, delivery, needed_bytes)]
    _report(requirements=[asdict(each) for each in checked])


def _report(**content: object) -> None:
    say(json.dumps({"schema_version": REPORT_VERSION, **content}))


def missing_parts(found: Found, delivery: Delivery) -> list[Part]:
    """An image's Python is unknown before delivery, so environments that it uses need packages for
    every version."""
    own = [Part(artifact, found.python) for artifact in delivery.artifacts]
    inside = () if delivery.image is None else delivery.image.environments
    others = [Part(name, python) for name in inside for python in PYTHONS if python != found.python]
    return [part for part in (*own, *others) if part.folder not in found.artifacts]


def _send(
    folders: Folders, delivery: Delivery, connection: Connection, missing: list[Part]
) -> None:
    # An environment may be there with packages for another Python: then only its part is moved.
    moved = tuple(dict.fromkeys(path for part in missing for path in (part.artifact, part.folder)))
    with connection.writing_to(_script(RECEIVE, delivery, moved)) as sink:
        archive.write(folders.cache, missing, sink)


def _script(template: str, delivery: Delivery, artifacts: tuple[str, ...]) -> str:
    return template.format(
        folder=shlex.quote(delivery.folder),
        environment=shlex.quote(delivery.environment),
        artifacts=shlex.join(artifacts),
        last=archive.LAST,
    )


def run(arguments: list[str]) -> None:
    if arguments not in (["apply"], ["remove"], ["examine"]):
        raise InputError("usage: deliver.py apply|remove|examine")
    delivery = read_delivery(read_document(SCHEMA_VERSION))
    if arguments == ["remove"]:
        remove(delivery)
    elif arguments == ["examine"]:
        examine(Folders.from_environment(), delivery)
    else:
        apply(Folders.from_environment(), delivery)


def main() -> int:
    return exit_code(lambda: run(sys.argv[1:]))
