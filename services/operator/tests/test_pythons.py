"""The Python of a host: which it may have, and what it gets for it."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from delivery import archive
from delivery.archive import Part
from delivery.document import Delivery, read_delivery
from delivery.fitness import MISSING, Found, look, requirements
from delivery.main import missing_parts
from delivery.ssh import Connection
from program.errors import InputError
from test_model_store import ThisMachine, document

LIBRARY = "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"
ENGINE, CONTROL_PLANE = "envs/triton-0123456789ab", "envs/xds-0123456789ab"


def delivery_of(*artifacts: str, **changes: Any) -> Delivery:
    return read_delivery(document(artifacts=list(artifacts), **changes))


def on(python: str, delivery: Delivery) -> Found:
    """This machine, as if it had that Python."""
    return replace(look(cast(Connection, ThisMachine()), delivery), python=python)


def wrong(python: str, delivery: Delivery) -> dict[str, tuple[str, str]]:
    """What is wrong, and the fix, by the requirement's name: of the Python and of packages."""
    others = {"architecture", "C library", "init", "clock"}
    return {
        each.name: (each.wrong, each.fix)
        for each in requirements(on(python, delivery), delivery)
        if each.wrong and each.name not in others
    }


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12"])
def test_a_host_without_engines_may_have_any_of_three(python: str) -> None:
    assert wrong(python, delivery_of(CONTROL_PLANE)) == {}


@pytest.mark.parametrize(
    ("python", "said"),
    [("3.9", "Python 3.9"), ("3.13", "Python 3.13"), (MISSING, "no Python")],
)
@pytest.mark.parametrize("artifact", [ENGINE, CONTROL_PLANE])
def test_any_other_is_refused_for_every_host(python: str, said: str, artifact: str) -> None:
    (of_python,) = wrong(python, delivery_of(artifact)).values()
    assert of_python == (
        f"has {said} as /usr/bin/python3; what hosts run needs 3.10, 3.11 or 3.12",
        "use Ubuntu 22.04 or 24.04, or Debian 12",
    )


@pytest.mark.parametrize("engine", ["triton", "vllm", "vllm_cuda"])
@pytest.mark.parametrize("python", ["3.10", "3.12"])
def test_a_host_with_engines_needs_the_python_of_their_environments(
    python: str, engine: str
) -> None:
    """One message: the library of that Python would not help."""
    packages = {"libpython3.11": f"{LIBRARY}.of-nobody"}
    delivery = delivery_of(f"envs/{engine}-0123456789ab", CONTROL_PLANE, packages=packages)
    ((said, fix),) = wrong(python, delivery).values()
    assert said == (
        f"has Python {python} as /usr/bin/python3; its engines run from environments made for"
        " Python 3.11"
    )
    assert fix == "use a host with Python 3.11, as Debian 12 has it"
    assert wrong("3.11", delivery) == {
        "libpython3.11": (
            f"has no {LIBRARY}.of-nobody",
            "apt install libpython3.11 there",
        )
    }


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """With the packages of an environment for this machine's Python and for another one."""
    for folder, python in ((CONTROL_PLANE, "3.11"), (f"{CONTROL_PLANE}-python3.10", "3.10")):
        packages = tmp_path / folder / f"lib/python{python}/site-packages"
        packages.mkdir(parents=True)
        (packages / "made_for.py").write_text(python)
    return tmp_path


def sent(cache: Path, *pythons: str) -> dict[str, bytes]:
    stream = io.BytesIO()
    archive.write(cache, [Part(CONTROL_PLANE, python) for python in pythons], stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as received:
        files = {each.name: received.extractfile(each) for each in received if each.isfile()}
        return {name: file.read() for name, file in files.items() if file}


@pytest.mark.parametrize("python", ["3.10", "3.11"])
def test_an_environment_has_its_name_and_the_packages_for_the_hosts_python(
    cache: Path, python: str
) -> None:
    packages = f"{CONTROL_PLANE}/lib/python{python}/site-packages/made_for.py"
    found = sent(cache, python)
    assert found.keys() == {f"{CONTROL_PLANE}/pyvenv.cfg", packages, archive.LAST}
    assert found[packages] == python.encode()
    assert archive.size_bytes(cache, Part(CONTROL_PLANE, python)) == len(python)


def test_packages_that_the_cache_lacks_are_named(cache: Path) -> None:
    with pytest.raises(InputError, match=r"xds-0123456789ab-python3\.12/lib/python3\.12 does not"):
        sent(cache, "3.12")


def test_an_environment_may_have_packages_for_several_pythons(cache: Path) -> None:
    found = sent(cache, "3.10", "3.11")
    for python in ("3.10", "3.11"):
        packages = f"{CONTROL_PLANE}/lib/python{python}/site-packages/made_for.py"
        assert found[packages] == python.encode()


def test_what_an_image_uses_is_brought_for_every_python_and_else_only_for_the_hosts() -> None:
    fetches = "envs/weights-0123456789ab"
    image = {
        "name": f"sha256:{'0' * 64}",
        "archive": "triton.tar",
        "vendor": "nvidia",
        "environments": [fetches],
    }
    delivery = read_delivery(document(artifacts=[CONTROL_PLANE, fetches], image=image))
    host = replace(on("3.12", delivery_of(CONTROL_PLANE)), artifacts=frozenset())
    parts = missing_parts(host, delivery)
    assert [part.folder for part in parts] == [
        f"{CONTROL_PLANE}/lib/python3.12",
        f"{fetches}/lib/python3.12",
        f"{fetches}/lib/python3.10",
        f"{fetches}/lib/python3.11",
    ]
    has = replace(host, artifacts=frozenset({parts[0].folder, parts[3].folder}))
    assert missing_parts(has, delivery) == parts[1:3]
