"""What a host needs to run containers, and the images that are brought there, with the commands'
own shell and a program in place of Docker's."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from delivery.containers import (
    Docker,
    Image,
    bring_image,
    container_requirements,
    look_at_docker,
    remove_images,
)
from program.errors import HostError, InputError

ID = f"sha256:{'ab' * 32}"
BY_DIGEST = f"registry.example:5000/triton@sha256:{'cd' * 32}"
GIBIBYTE = 1 << 30
PULLED = Image(name=BY_DIGEST, archive="", vendor="nvidia")
FIT = Docker(
    version="28.2.2",
    live_restore=True,
    own_socket=True,
    runtimes=frozenset({"nvidia", "runc"}),
    root="/var/lib/docker",
    free_bytes=100 * GIBIBYTE,
)

# A Docker with a folder for each image and a file in it for each of its tags, which knows what it
# was asked.
DOCKER = """#!/bin/sh
cd {folder}
if [ "$1 $2" = "--host unix:///run/docker-nomad.sock" ]; then
  exec grep -q own-socket listens
fi
echo "$@" >> asked
for last; do :; done
has() {{ [ -d "images/$1" ]; }}
of_tag() {{
  set -- images/*/"$(echo "$1" | tr / _)"
  [ -e "$1" ] && basename "$(dirname "$1")"
}}
case "$1 $2" in
  "version --format") echo 28.2.2 ;;
  "info --format")
    case "$3" in
      live*) printf 'live-restore true\nruntime nvidia\nruntime runc\n\n' ;;
      *DriverStatus*) cat store ;;
      *) echo {folder} ;;
    esac ;;
  "image inspect")
    name=$(echo "$last" | sed 's/.*@//')
    has "$name" || name=$(of_tag "$last") || exit 1
    case "$4" in
      ok) echo ok ;;
      image*) echo "image $name" ;;
      *len*) ls "images/$name" | wc -l ;;
      *) echo "$name" ;;
    esac ;;
  "image rm")
    if has "$last"; then rm -r "images/$last"; else rm images/*/"$(echo "$last" | tr / _)"; fi ;;
  "ps --all") cat used 2> /dev/null ;;
  "pull --quiet") mkdir "images/$(echo "$3" | sed 's/.*@//')" ;;
  "load ") cat > loaded; mkdir "images/{id}" ;;
  "tag "*) touch "images/$(echo "$2" | sed 's/.*@//')/$(echo "$3" | tr / _)" ;;
  "images --format") ls images/* 2> /dev/null | grep "^$(echo "$4" | tr / _):" | tr _ / ;;
esac
"""
ENVIRONMENT = "fleet"


class Host:
    """Runs commands on this machine, with its own Docker first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "images").mkdir()
        (folder / "asked").touch()
        (folder / "store").write_text("[[Backing Filesystem extfs]]")
        (folder / "listens").write_text("own-socket")
        program = folder / "docker"
        program.write_text(DOCKER.format(folder=folder, id=ID))
        program.chmod(0o755)
        self._variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            env=self._variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @contextmanager
    def writing_to(self, command: str) -> Iterator[IO[bytes]]:
        with subprocess.Popen(
            ["sh", "-c", command], env=self._variables, stdin=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            yield process.stdin
            process.stdin.close()
        assert process.returncode == 0

    def asked(self, words: str) -> int:
        """How often Docker was asked something that begins so."""
        lines = (self.folder / "asked").read_text().splitlines()
        return sum(line.startswith(words) for line in lines)

    def images(self) -> dict[str, list[str]]:
        """By ID or digest, with their tags."""
        return {
            image.name: sorted(tag.name.replace("_", "/") for tag in image.iterdir())
            for image in (self.folder / "images").iterdir()
        }


@pytest.fixture
def host(tmp_path: Path) -> Host:
    folder = tmp_path / "host"
    folder.mkdir()
    return Host(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return packed(tmp_path / "triton.tar", f"{'ab' * 32}.json")


def packed(file: Path, config: str) -> Path:
    with tarfile.open(file, "w") as tar:
        text = json.dumps([{"Config": config, "RepoTags": None, "Layers": []}]).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return file


def of(archive: Path) -> Image:
    return Image(name=ID, archive=str(archive), vendor="nvidia")


def wrong(found: Docker, image: Image = PULLED) -> dict[str, str]:
    checked = [each for each in container_requirements(found, image) if each.wrong]
    assert all(each.fix for each in checked)
    return {each.name: each.wrong for each in checked}


def test_a_fit_host_meets_everything() -> None:
    assert wrong(FIT) == {}


def test_amds_devices_need_no_runtime_of_their_own() -> None:
    without = dataclasses.replace(FIT, runtimes=frozenset({"runc"}))
    assert wrong(without, dataclasses.replace(PULLED, vendor="amd")) == {}


@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ({"failed": "docker is not installed"}, "Docker", "docker is not installed"),
        ({"live_restore": False}, "live restore", "has live restore off"),
        (
            {"own_socket": False},
            "Docker's own socket",
            "no Docker socket at /run/docker-nomad.sock",
        ),
        ({"runtimes": frozenset({"runc"})}, "container toolkit", "no Docker runtime named nvidia"),
    ],
)
def test_an_unfit_host_is_told_what_it_lacks(
    changes: dict[str, object], name: str, says: str
) -> None:
    found = wrong(dataclasses.replace(FIT, **changes))
    assert list(found) == [name]
    assert says in found[name]


def test_an_archive_that_does_not_fit_on_dockers_disk_is_not_sent(archive: Path) -> None:
    full = dataclasses.replace(FIT, free_bytes=2 * archive.stat().st_size - 1)
    assert list(wrong(full, of(archive))) == ["image"]
    assert wrong(dataclasses.replace(full, has_image=True), of(archive)) == {}


def test_what_docker_says_of_itself_is_read(host: Host) -> None:
    found = look_at_docker(host, PULLED)  # type: ignore[arg-type]
    assert (found.version, found.live_restore, found.failed) == ("28.2.2", True, "")
    assert found.own_socket
    (host.folder / "listens").write_text("")
    assert not look_at_docker(host, PULLED).own_socket  # type: ignore[arg-type]
    assert found.runtimes == {"nvidia", "runc"}
    assert found.root == str(host.folder)
    assert found.free_bytes > 0
    assert not found.has_image


def test_a_host_without_docker_says_so(host: Host) -> None:
    (host.folder / "docker").write_text("#!/bin/sh\necho no daemon; exit 1\n")
    assert look_at_docker(host, PULLED).failed == "no daemon"  # type: ignore[arg-type]


def test_an_image_of_a_registry_is_pulled_once(host: Host) -> None:
    for _ in range(2):
        bring_image(host, PULLED, "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert host.images() == {f"sha256:{'cd' * 32}": [f"slipway/fleet:{'cd' * 6}"]}
    assert host.asked("pull") == 1


def test_an_image_of_an_archive_is_loaded_once(host: Host, archive: Path) -> None:
    for _ in range(2):
        bring_image(host, of(archive), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert host.images() == {ID: [f"slipway/fleet:{'ab' * 6}"]}
    assert (host.folder / "loaded").read_bytes() == archive.read_bytes()
    assert host.asked("load") == 1
    assert not host.asked("pull")


@pytest.mark.parametrize("config", [f"{'ef' * 32}.json", f"blobs/sha256/{'ef' * 32}"])
def test_an_archive_of_another_image_is_refused_before_it_is_sent(
    host: Host, tmp_path: Path, config: str
) -> None:
    other = packed(tmp_path / "other.tar", config)
    with pytest.raises(InputError, match=f"has sha256:{'ef' * 32}, and not {ID}"):
        bring_image(host, of(other), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert not host.asked("load")


def test_an_archive_is_found_by_the_layout_of_newer_dockers_too(host: Host, tmp_path: Path) -> None:
    newer = packed(tmp_path / "newer.tar", f"blobs/sha256/{'ab' * 32}")
    bring_image(host, of(newer), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert [*host.images()] == [ID]


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_a_file_that_is_no_archive_of_an_image_is_refused(
    host: Host, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "file.tar"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match="is no archive of an image"):
        bring_image(host, of(file), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]


def test_an_image_that_was_brought_and_is_not_there_is_an_error(host: Host) -> None:
    program = (host.folder / "docker").read_text()
    (host.folder / "docker").write_text(
        program.replace('mkdir "images/$(echo "$3"', 'true "$(echo "$3"')
    )
    with pytest.raises(HostError, match="does not know"):
        bring_image(host, PULLED, "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]


def test_an_earlier_image_of_the_environment_goes_once_no_container_uses_it(
    host: Host, archive: Path
) -> None:
    bring_image(host, PULLED, "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    (host.folder / "used").write_text("a container\n")
    bring_image(host, of(archive), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert len(host.images()) == 2
    (host.folder / "used").unlink()
    bring_image(host, of(archive), "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    assert host.images() == {ID: [f"slipway/fleet:{'ab' * 6}"]}


def test_an_image_that_another_environment_or_its_owner_has_tagged_stays(host: Host) -> None:
    for environment in (ENVIRONMENT, "other"):
        bring_image(host, PULLED, "gpu-0", environment)  # type: ignore[arg-type]
    remove_images(host, ENVIRONMENT)  # type: ignore[arg-type]
    (image,) = host.images()
    assert host.images()[image] == [f"slipway/other:{'cd' * 6}"]
    host.run(f"docker tag {image} own:tag")
    remove_images(host, "other")  # type: ignore[arg-type]
    assert host.images() == {image: ["own:tag"]}


def test_images_go_with_the_environment(host: Host) -> None:
    bring_image(host, PULLED, "gpu-0", ENVIRONMENT)  # type: ignore[arg-type]
    remove_images(host, ENVIRONMENT)  # type: ignore[arg-type]
    assert host.images() == {}
    (host.folder / "docker").unlink()
    remove_images(host, ENVIRONMENT)  # type: ignore[arg-type]


def test_a_file_is_not_for_containerds_store_where_ids_differ(archive: Path) -> None:
    in_containerd = dataclasses.replace(FIT, store="containerd")
    assert list(wrong(in_containerd, of(archive))) == ["image store"]
    assert wrong(in_containerd) == {}


def test_the_store_of_images_is_read(host: Host) -> None:
    assert look_at_docker(host, PULLED).store == ""  # type: ignore[arg-type]
    (host.folder / "store").write_text("[[driver-type io.containerd.snapshotter.v1]]")
    assert look_at_docker(host, PULLED).store == "containerd"  # type: ignore[arg-type]
