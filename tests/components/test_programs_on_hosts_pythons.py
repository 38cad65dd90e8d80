"""Programs of hosts on the Pythons of Ubuntu 22.04 and 24.04, with the packages that hosts get.

tests/hosts/test_unfit_hosts.py brings a whole platform up on both.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from components.hosts.delivery import OTHER_PYTHONS
from slipway.config.artifacts import REQUIREMENTS, bundle_files
from tests.interpreters import usr_of
from toolchain.prepare import PackagesJob, prepare
from toolchain.settings import default_cache

pytestmark = pytest.mark.binaries

ROOT = Path(__file__).parents[2]
FOR_TESTS = {name: f"tests/requirements-{name}.txt" for name in ("launcher", "pytest")}
# Programs whose tests need too much: each of their modules is imported, with these environments.
IMPORTED = {"fabric": "node", "host": "node", "triton_vllm": "weights"}
WEIGHTS_STEP = ("weights.py", "preparation")  # what hosts with engines in containers run of it
IMPORT_EACH = """
import importlib, sys
sys.path.append(sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
"""
# The services' own suites run at the same time, with the same addresses, and look into /tmp.
IN_NAMESPACES = 'ip link set lo up; mount -t tmpfs tmpfs /tmp; exec "$@"'
ALONE = ("unshare", "--net", "--mount", "sh", "-euc", IN_NAMESPACES, "sh")
# Service -> an environment and tests: of processes, and of what is older than asyncio.timeout.
TESTS = {
    "xds": ("xds", "test_node_ids.py", "test_blocking_query.py"),
    "engine_sim": ("engine_sim", "test_engine.py", "test_triton_protocols.py"),
    "devices": ("devices", "test_plugin.py::test_it_ends_with_the_process_that_started_it"),
    "triton_vllm": (
        "launcher",
        "test_drain.py::test_an_idle_replica_drains_and_leaves_nothing",
        "test_weights.py::test_a_path_is_copied_and_gets_a_manifest",
    ),
}


@cache
def packages(name: str, python: str) -> Path:
    """The packages of an environment, as the operator's machine makes them for such hosts."""
    requirements = ROOT / {**REQUIREMENTS, **FOR_TESTS}[name]
    job = PackagesJob(name=name, requirements=requirements, python=python)
    (folder,) = prepare([job], default_cache()).values()
    return folder / f"lib/python{python}"


def environment(folder: Path, name: str, python: str) -> Path:
    """The interpreter of an environment as it is on a host."""
    usr = usr_of(python)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(usr / f"bin/python{python}")
    (folder / "bin/python3").symlink_to("python")  # by which Triton finds its packages
    (folder / "pyvenv.cfg").write_text(
        f"home = {usr / 'bin'}\ninclude-system-site-packages = false\n"
    )
    (folder / "lib").mkdir()
    (folder / f"lib/python{python}").symlink_to(packages(name, python))
    return folder / "bin/python"


def ran(command: list[str | Path], *, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**plain(os.environ), "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def plain(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name != "PYTHONPATH"}


@pytest.mark.parametrize("python", OTHER_PYTHONS)
@pytest.mark.parametrize(("service", "name"), IMPORTED.items())
def test_every_module_can_be_imported(tmp_path: Path, python: str, service: str, name: str) -> None:
    files = [file for file in bundle_files(ROOT, service) if file.suffix == ".py"]
    if service == "triton_vllm":
        files = [file for file in files if file.parts[0] in WEIGHTS_STEP]
    modules = [".".join(file.with_suffix("").parts) for file in files]
    interpreter = environment(tmp_path, name, python)
    folder = ROOT / "services" / service
    ran([interpreter, "-c", IMPORT_EACH, folder, *modules], folder=tmp_path)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder outside of /tmp."""
    if os.geteuid():
        pytest.skip("namespaces need root")
    with tempfile.TemporaryDirectory(dir=default_cache()) as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("python", "service"),
    [*(("3.10", service) for service in TESTS), ("3.12", "devices"), ("3.12", "triton_vllm")],
)
def test_its_tests_pass(place: Path, python: str, service: str) -> None:
    name, *tests = TESTS[service]
    interpreter = environment(place, name, python)
    ran(
        [*ALONE, interpreter, "-m", "pytest", "-q", *(f"tests/{test}" for test in tests)],
        folder=ROOT / "services" / service,
        PYTHONPATH=str(packages("pytest", python) / "site-packages"),
        # With the library of Triton's Python, which a distribution has in a folder of the system.
        LD_LIBRARY_PATH=str(usr_of(python) / "lib"),
    )
