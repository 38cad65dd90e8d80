"""Makes the plugin and its test support importable, and gives each test devices of its own."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_SERVICE = _TESTS.parent
sys.path[:0] = [str(_TESTS), str(_SERVICE), str(_SERVICE.parent / "program/tests")]

from fake_kfd import FakeKfd  # noqa: E402 - needs the path above
from fake_log import FakeLog  # noqa: E402
from fake_nvml import FakeNvml  # noqa: E402


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1 that answers from files."""
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    source = _TESTS / "library/nvml.c"
    flags = ("-Wall", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{target.name}")
    subprocess.run(["cc", *flags, "-o", target, source], check=True)
    # The binding opens the library by its name, which finds the one that is loaded already.
    ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)
    return folder


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    folder = tmp_path / "nvml"
    folder.mkdir()
    monkeypatch.setenv("NVML_TABLE", str(folder))
    return FakeNvml(folder)


@pytest.fixture
def kfd(tmp_path: Path) -> FakeKfd:
    return FakeKfd(tmp_path / "sys")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FakeLog]:
    made = FakeLog(tmp_path / "kmsg")
    yield made
    made.close()
