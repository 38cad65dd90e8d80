"""What a host needs to run containers, and how it gets the image of its pool.

Images are brought before anything runs, never when a task starts: from a registry or mirror by
their digest, with Docker's credentials on the host, or from an archive of the operator's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from program.document import JsonObject
from program.errors import HostError, InputError
from program.waiting import say

from delivery.requirement import Requirement
from delivery.ssh import Connection

MEBIBYTE = 1 << 20
NVIDIA = "nvidia"  # the runtime's name, which Nomad's driver asks for
MANIFEST = "manifest.json"  # of `docker save`
# Where Nomad reaches Docker (components/nomad/agent_config.py). The usual socket is systemd's,
# which queues requests while the daemon restarts. Nomad's wait for a container then fails, and the
# stop request that it queues ends the container. A socket of the daemon's own refuses that request,
# and Nomad reattaches to the container (measured, Nomad 1.11.3).
OWN_SOCKET = "/run/docker-nomad.sock"
CONTAINERD = "containerd"

# Each line begins with what it is about.
LOOK = """
if ! command -v docker > /dev/null; then
  echo 'failed docker is not installed'
elif ! said=$(timeout 30 docker version --format '{{{{.Server.Version}}}}' 2>&1); then
  echo "failed $(echo "${{said:-it is silent}}" | tail -n 1)"
else
  echo "version $said"
  docker info --format 'live-restore {{{{.LiveRestoreEnabled}}}}
{{{{range $name, $_ := .Runtimes}}}}runtime {{{{$name}}}}
{{{{end}}}}'
  docker info --format '{{{{.DriverStatus}}}}' | grep -q containerd.snapshotter \\
    && echo 'store containerd'
  docker image inspect --format 'image {{{{.Id}}}}' {image} 2> /dev/null
  if docker --host unix://{socket} version --format '{{{{.Server.Version}}}}' > /dev/null 2>&1; then
    echo own-socket
  fi
  root=$(docker info --format '{{{{.DockerRootDir}}}}')
  echo "root $root"
  echo "free $(df -P -B 1 "$root" | tail -n 1 | awk '{{print $4}}')"
fi
true
"""
HAS = "docker image inspect --format ok {image} 2> /dev/null || true"
# An environment's own tag keeps its image from being pruned. Tags of earlier images are removed
# once no container uses them, the image only with its last tag: others may use it.
KEEP_ONLY = """
command -v docker > /dev/null || exit 0
keep={tag}
[ -z "$keep" ] || docker tag {image} "$keep" || exit 1
tags='{{{{.Repository}}}}:{{{{.Tag}}}}'
for tag in $(docker images --format "$tags" {repository} 2> /dev/null); do
  [ "$tag" != "$keep" ] || continue
  id=$(docker image inspect --format '{{{{.Id}}}}' "$tag")
  [ -z "$(docker ps --all --quiet --filter "ancestor=$id")" ] || continue
  docker image rm "$tag" > /dev/null
  others=$(docker image inspect --format '{{{{len .RepoTags}}}}' "$id" 2> /dev/null)
  [ "$others" != 0 ] || docker image rm "$id" > /dev/null
done
true
"""


@dataclass(frozen=True)
class Image:
    """`name` is NAME@sha256:…, or the ID of an image that `archive`, the operator's file, has."""

    name: str
    archive: str
    vendor: str  # of the devices that its containers get
    environments: tuple[str, ...] = ()  # artifacts whose packages the image's Python uses

    @property
    def digest(self) -> str:
        return self.name.rpartition("sha256:")[2]

    @property
    def file(self) -> Path:
        """Relative paths are below the checkout."""
        return Path(os.environ.get("SLIPWAY_CHECKOUT", "."), self.archive)


@dataclass(frozen=True)
class Docker:
    """A host's Docker. `failed` is what it says if it does not answer."""

    failed: str = ""
    version: str = ""
    live_restore: bool = False
    own_socket: bool = False
    store: str = ""  # "containerd", or Docker's own
    runtimes: frozenset[str] = frozenset()
    root: str = ""
    free_bytes: int = 0
    has_image: bool = False


def read_image(document: JsonObject) -> Image:
    return Image(**{**document, "environments": tuple(document["environments"])})


def look_at_docker(connection: Connection, image: Image) -> Docker:
    said = connection.run(LOOK.format(image=shlex.quote(image.name), socket=OWN_SOCKET))
    about: dict[str, list[str]] = {}
    for line in said.splitlines():
        subject, _, value = line.strip().partition(" ")
        about.setdefault(subject, []).append(value)

    def one(subject: str) -> str:
        return next(iter(about.get(subject, ())), "")

    return Docker(
        failed=one("failed"),
        version=one("version"),
        live_restore=one("live-restore") == "true",
        own_socket="own-socket" in about,
        store=one("store"),
        runtimes=frozenset(about.get("runtime", ())),
        root=one("root"),
        free_bytes=int(one("free") or 0),
        has_image="image" in about,
    )


def container_requirements(docker: Docker, image: Image) -> Iterator[Requirement]:
    """Everything that was looked at, as wanted or not."""
    if docker.failed:
        yield Requirement(
            "Docker",
            "does not answer",
            f"has no Docker that answers: {docker.failed}",
            "install Docker (docker-ce or docker.io), then systemctl enable --now docker",
        )
        return
    yield Requirement("Docker", docker.version)
    yield _live_restore(docker)
    yield _own_socket(docker)
    if image.vendor == NVIDIA:
        yield _toolkit(docker)
    if image.archive:
        yield _store(docker)
    yield _room(docker, image)


def bring_image(connection: Connection, image: Image, host: str, environment: str) -> None:
    """Brings it unless the host has it, and lets the environment's earlier ones go. Raises
    InputError for an archive without this image."""
    if not _has(connection, image):
        if image.archive:
            _load(connection, image, host)
        else:
            say(f"{host}: pulling {image.name}")
            connection.run(f"docker pull --quiet {shlex.quote(image.name)}")
        if not _has(connection, image):
            raise HostError(f"{host}: Docker does not know {image.name} after it was brought there")
    tag = f"{_repository(environment)}:{image.digest[:12]}"
    connection.run(_keeping_only(tag, image.name, environment))


def remove_images(connection: Connection, environment: str) -> None:
    """Those that were brought for the environment."""
    connection.run(_keeping_only("", "", environment))


def _keeping_only(tag: str, image: str, environment: str) -> str:
    words = {"tag": tag, "image": image, "repository": _repository(environment)}
    return KEEP_ONLY.format(**{name: shlex.quote(word) for name, word in words.items()})


def _repository(environment: str) -> str:
    return f"slipway/{environment.lower()}"


def _load(connection: Connection, image: Image, host: str) -> None:
    file = image.file
    _check_archive(file, image)
    say(f"{host}: {file.name} ({file.stat().st_size // MEBIBYTE} MiB)")
    with file.open("rb") as archive, connection.writing_to("docker load") as sink:
        shutil.copyfileobj(archive, sink, MEBIBYTE)


def _check_archive(file: Path, image: Image) -> None:
    fix = f"write it with `docker save --output {file} {image.name}`"
    try:
        with tarfile.open(file) as archive:
            content = archive.extractfile(MANIFEST)
            assert content is not None  # noqa: S101
            entries = json.load(content)
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise InputError(
            f"image_archive: {file} is no archive of an image: {error}\nfix: {fix}"
        ) from error
    # "<id>.json" or, since Docker 25, "blobs/sha256/<id>".
    has = {Path(entry["Config"]).name.removesuffix(".json") for entry in entries}
    if image.digest not in has:
        ids = ", ".join(f"sha256:{each}" for each in sorted(has))
        raise InputError(f"image_archive: {file} has {ids}, and not {image.name}\nfix: {fix}")


def _has(connection: Connection, image: Image) -> bool:
    return bool(connection.run(HAS.format(image=shlex.quote(image.name))).strip())


def _live_restore(docker: Docker) -> Requirement:
    if docker.live_restore:
        return Requirement("live restore", "on")
    return Requirement(
        "live restore",
        "off",
        "has live restore off: a restart of Docker's daemon ends all containers",
        'add "live-restore": true to /etc/docker/daemon.json, then systemctl reload docker',
    )


def _own_socket(docker: Docker) -> Requirement:
    if docker.own_socket:
        return Requirement("Docker's own socket", OWN_SOCKET)
    return Requirement(
        "Docker's own socket",
        "none",
        f"has no Docker socket at {OWN_SOCKET}: through systemd's, a restart of the daemon ends all"
        " containers",
        f"systemctl edit docker, add `-H unix://{OWN_SOCKET}` to its ExecStart (after an empty"
        " ExecStart=), then systemctl restart docker",
    )


def _toolkit(docker: Docker) -> Requirement:
    if NVIDIA in docker.runtimes:
        return Requirement("container toolkit", f"runtime {NVIDIA}")
    return Requirement(
        "container toolkit",
        f"no runtime {NVIDIA}",
        f"has no Docker runtime named {NVIDIA}, which gives containers their devices",
        "install nvidia-container-toolkit, then nvidia-ctk runtime configure --runtime=docker and"
        " systemctl restart docker",
    )


def _store(docker: Docker) -> Requirement:
    if docker.store != CONTAINERD:
        return Requirement("image store", "Docker's own")
    return Requirement(
        "image store",
        CONTAINERD,
        "keeps images in containerd's store, where one from a file has another ID",
        'add "features": {"containerd-snapshotter": false} to /etc/docker/daemon.json, then'
        " systemctl restart docker; or name the image by its digest in a registry",
    )


def _room(docker: Docker, image: Image) -> Requirement:
    """How much a registry's image takes is not known before it is there. Docker unpacks a file
    beside what it keeps."""
    free = f"{docker.free_bytes // MEBIBYTE} MiB free for {docker.root}"
    if docker.has_image:
        return Requirement("image", "there")
    if not image.archive or not image.file.is_file():
        return Requirement("image", f"not there yet; {free}")
    needed = 2 * image.file.stat().st_size
    if needed <= docker.free_bytes:
        return Requirement("image", f"not there yet; {free}")
    return Requirement(
        "image",
        free,
        f"has {free}, where the image needs {needed // MEBIBYTE} MiB while it is loaded",
        "make room on that disk, or move Docker's data-root to a larger one",
    )
