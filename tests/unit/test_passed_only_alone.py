"""`slipway test` runs a test that failed once more, alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorder import RECORD_VARIABLE
from tests.runner import REPLICAS, SERVICES, Suite, run
from tests.suites import RECORDER

WITHOUT_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading them takes half a second
FILE = """
import os
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
RUNS = HERE / "runs"


def first(name):
    \"\"\"Whether this is the first run of a test.\"\"\"
    with RUNS.open("a") as runs:
        print(name, file=runs)
    return RUNS.read_text().splitlines().count(name) == 1


"""


def runs(folder: Path) -> list[str]:
    return (folder / "runs").read_text().splitlines()


def suite_of(folder: Path, tests: str, *options: str, lane: str = "") -> Suite:
    (folder / "test_some.py").write_text(FILE + tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = () if "-n" not in options else ("-p", "xdist")
    return Suite(
        name="some",
        command=(sys.executable, str(RECORDER), "-p", "no:cacheprovider", *plugins, *options),
        folder=folder,
        variables=WITHOUT_PLUGINS,
        lane=lane,
    )


def last_block(output: str) -> list[str]:
    return output.rstrip("\n").split("\n\n")[-1].splitlines()


def test_what_passes_the_second_time_is_named_and_the_run_is_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = """
@pytest.fixture(scope="module")
def shared():
    assert not first("shared")


@pytest.fixture
def ends_badly():
    yield
    assert not first("ends badly")


def test_one(shared):
    first("one")


def test_two(shared):
    first("two")


@pytest.mark.parametrize("value", ["a::b c", "a"])
def test_values(value):
    assert not first(f"value {value}") or value == "a"


def test_ends_badly(ends_badly):
    pass


def test_passes():
    first("passes")
"""
    monkeypatch.chdir(tmp_path)
    assert run([suite_of(tmp_path, tests)])
    assert last_block(capsys.readouterr().out) == [
        "passed only alone:",
        "test_some.py::test_one",
        "test_some.py::test_two",
        "test_some.py::test_values[a::b c]",
        "test_some.py::test_ends_badly",
    ]
    first_time = ["shared", "value a::b c", "value a", "ends badly", "passes"]
    assert runs(tmp_path) == [*first_time, "shared", "one", "two", "value a::b c", "ends badly"]


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        pytest.param(
            """
def test_fails():
    first("fails")
    raise AssertionError


def test_once():
    assert not first("once")
""",
            ["fails", "once", "fails"],
            id="it fails again, and the rest is not tried",
        ),
        pytest.param(
            """
assert not first("collected")


def test_nothing():
    pass
""",
            ["collected"],
            id="the file cannot be imported",
        ),
    ],
)
def test_a_run_is_red_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tests: str, expected: list[str]
) -> None:
    assert not run([suite_of(tmp_path, tests)])
    assert runs(tmp_path) == expected
    assert "passed only alone" not in capsys.readouterr().out


def test_a_skipped_test_has_not_passed(tmp_path: Path) -> None:
    tests = """
def test_skipped():
    pytest.skip()


def test_passes():
    pass
"""
    suite, record = suite_of(tmp_path, tests), tmp_path / "record.json"
    environment = {**os.environ, **suite.variables, RECORD_VARIABLE: str(record)}
    subprocess.run(suite.command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert json.loads(record.read_text()) == {
        "passed": [f"{tmp_path}/test_some.py::test_passes"],
        "failed": [],
    }


# In the place of pytest, which takes long to start. True in the first run: it records a failure.
FIRST = f'[ $(wc -l < runs) = 1 ] && echo \'{{"failed": ["test_one"]}}\' > ${RECORD_VARIABLE}'


@pytest.mark.parametrize(
    ("script", "times"),
    [
        pytest.param(f"{FIRST}; exit 1", 2, id="the suite leaves no record the second time"),
        pytest.param(f"{FIRST} && exit 1; exit 0", 2, id="the test is skipped the second time"),
        pytest.param("kill -9 $$", 1, id="the suite is killed"),
        pytest.param(f"{FIRST} && kill -9 $$", 1, id="the suite is killed when it has a record"),
        pytest.param("exit 1", 1, id="the suite ends without a record"),
    ],
)
def test_a_run_is_red_too_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, times: int
) -> None:
    command = ("sh", "-c", f"echo run >> runs; {script}")
    assert not run([Suite(name="some", command=command, folder=tmp_path)])
    assert runs(tmp_path) == ["run"] * times
    assert "passed only alone" not in capsys.readouterr().out


@pytest.mark.binaries
def test_a_worker_that_died_is_red(tmp_path: Path) -> None:
    tests = """
def test_once():
    assert not first("once")


def test_dies():
    if first("dies"):
        os._exit(1)
"""
    assert not run([suite_of(tmp_path, tests, "-n", "1")])
    assert runs(tmp_path) == ["once", "dies"]


@pytest.mark.binaries
def test_alone_means_without_workers_and_after_all_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # this test's own
    tests = """
def test_alone():
    assert not first("alone")
    assert "PYTEST_XDIST_WORKER" not in os.environ
    assert (HERE / "ended").exists()
"""
    slower = Suite(
        name="slower",
        command=("sh", "-c", "while ! [ -e runs ]; do sleep 0.01; done; sleep 0.1; touch ended"),
        folder=tmp_path,
        lane=REPLICAS,
    )
    assert run([slower, suite_of(tmp_path, tests, "-n", "1", lane=SERVICES)])
    assert runs(tmp_path) == ["alone", "alone"]


def test_what_is_not_a_test_runs_once(tmp_path: Path) -> None:
    command = ("sh", "-c", "echo linted >> runs; exit 1")
    assert not run([Suite(name="linter", command=command, folder=tmp_path)])
    assert runs(tmp_path) == ["linted"]
