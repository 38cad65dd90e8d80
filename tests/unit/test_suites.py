"""`slipway test`: which suites run, and its exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest
from typer.testing import CliRunner

from cli.app import app
from tests import suites
from tests.runner import COMPUTING, OWN_PLATFORMS, PLATFORM, REPLICAS, SERVICES, Suite, run
from tests.suites import (
    APART,
    BESIDE,
    BINARIES,
    FEW_EXAMPLES,
    LIVE,
    NEEDS_NO_BINARIES,
    chosen_suites,
    fast_suites,
)

TEST = "def test_{}():\n    pass\n"


@pytest.fixture(autouse=True)
def unpacked_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "missing_to_run", lambda: "")
    monkeypatch.setattr(suites, "docker_programs", lambda cache: cache / "docker")


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with tests of its own and of one service; its environments are this one."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(TEST.format("own"))
    service = tmp_path / "services" / "xds"
    (service / "tests").mkdir(parents=True)
    (service / "requirements-test.txt").write_text("")
    (service / "pytest.ini").write_text("[pytest]\n")
    (service / "tests" / "test_hub.py").write_text(TEST.format("hub"))
    (tmp_path / "services" / "host").mkdir()
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\nmarkers =\n  live\n  apart\n  beside\n  thorough\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # loading them takes half a second
    monkeypatch.setattr(suites, "CHECKOUT", tmp_path)
    monkeypatch.setattr(suites, "TYPED", ("tests",))
    for how in ("SIDE_BY_SIDE", "FILES_SIDE_BY_SIDE", "FEW_EXAMPLES"):  # options of plugins
        monkeypatch.setattr(suites, how, ())
    environment = Path(sys.executable).parents[1]
    monkeypatch.setattr(suites, "prepare", lambda jobs, *_: {job.name: environment for job in jobs})
    return tmp_path


def closing_lines(output: str) -> dict[str, str]:
    lines = output.strip().splitlines()
    last = lines[len(lines) - lines[::-1].index("") :]
    return dict(line.split(": ", 1) for line in last)


def test_everything_is_linted_and_every_suite_runs_in_its_own_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = project / "environments"
    monkeypatch.setattr(
        suites, "prepare", lambda jobs, *_: {job.name: environments / job.name for job in jobs}
    )
    found = {suite.name: suite for suite in chosen_suites([], project / "cache")}
    linters = {"ruff check", "ruff format", "mypy"}
    own = {
        "tests": NEEDS_NO_BINARIES,
        "tests, with binaries": BINARIES,
        "tests, live, beside others": BESIDE,
        "tests, live, apart": APART,
        "tests, live": LIVE,
    }
    assert found.keys() == linters | {"services/xds"} | own.keys()
    assert found["mypy"].command == (sys.executable, "-m", "mypy", "tests")
    assert found["services/xds"].command[0] == str(environments / "xds-test" / "bin" / "python")
    assert found["services/xds"].folder == project / "services" / "xds"
    for name, marked in own.items():
        assert found[name].command[0] == sys.executable
        assert found[name].command[-2:] == ("-m", marked)


def test_the_real_engine_is_part_of_everything_and_its_environment_is_known(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = project / "services" / "triton_vllm"
    service.mkdir()
    for name in ("requirements.txt", "requirements-test.txt"):
        (service / name).write_text("")
    monkeypatch.setattr(suites, "REQUIREMENTS", {"vllm": "services/triton_vllm/requirements.txt"})
    found = {suite.name: suite for suite in chosen_suites([], project / "cache")}
    real = found["services/triton_vllm, real"]
    assert "real and not kills" in real.command
    assert real.variables["SLIPWAY_ENV_VLLM"].startswith(str(project / "cache/envs/vllm-"))
    chosen = chosen_suites(["services/triton_vllm", "-m", "real"], project / "cache")
    assert [suite.variables for suite in chosen] == [real.variables]


def meeting(name: str, other: str, folder: Path, lane: str = "") -> Suite:
    """Passes only if the other runs at the same time."""
    wait = f"for i in $(seq 6000); do [ -e {other} ] && exit 0; sleep 0.01; done; exit 1"
    command = ("sh", "-c", f"echo {name} runs; touch {name}; {wait}")
    return Suite(name=name, command=command, folder=folder, lane=lane)


def test_suites_that_mostly_wait_run_beside_each_other_and_are_shown_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(
        [meeting("one", "two", tmp_path, SERVICES), meeting("two", "one", tmp_path, REPLICAS)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["── one", "one runs", "── two", "two runs"]


def test_platforms_run_beside_each_other_when_all_other_suites_have_ended(tmp_path: Path) -> None:
    own = meeting("own", "platform", tmp_path, OWN_PLATFORMS)
    platform = meeting("platform", "own", tmp_path, PLATFORM)
    before = ("sh", "-c", "[ ! -e own ] && [ ! -e platform ]")
    services = Suite(name="services", command=before, folder=tmp_path, lane=SERVICES)
    assert run([own, platform, services])


def test_what_only_computes_runs_beside_what_runs_alone(tmp_path: Path) -> None:
    assert run([meeting("one", "two", tmp_path, COMPUTING), meeting("two", "one", tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tests"], {"tests": ["tests"]}),
        (["tests/test_own.py::test_own"], {"tests": ["tests/test_own.py::test_own"]}),
        (["services/xds"], {"services/xds": ["{project}/services/xds/tests"]}),
        (["services"], {"services/xds": ["{project}/services/xds/tests"]}),
        (
            ["."],
            {
                "services/xds": ["{project}/services/xds/tests"],
                "tests": ["{project}/tests"],
            },
        ),
        (
            ["services/xds/tests/test_hub.py", "tests", "-x"],
            {
                "services/xds": ["-x", "{project}/services/xds/tests/test_hub.py"],
                "tests": ["-x", "tests"],
            },
        ),
        (
            ["-k", "own or hub"],
            {
                "services/xds": ["-k", "own or hub", "{project}/services/xds/tests"],
                "tests": ["-k", "own or hub"],
            },
        ),
    ],
)
def test_paths_choose_suites_and_options_go_to_all(
    project: Path, arguments: list[str], expected: dict[str, list[str]]
) -> None:
    found = {
        suite.name: [*suite.command[2:], *suite.tests]
        for suite in chosen_suites(arguments, project / "cache")
        if not suite.name.startswith(("ruff", "mypy"))
    }
    wanted = {
        name: [argument.format(project=project) for argument in given]
        for name, given in expected.items()
    }
    assert found == wanted


def test_one_failed_suite_fails_the_whole_and_the_others_still_run(
    runner: CliRunner, project: Path
) -> None:
    (project / "services" / "xds" / "tests" / "test_hub.py").write_text(
        TEST.format("hub").replace("pass", "1 / 0")
    )
    result = runner.invoke(app, ["test", "services/xds", "tests"])
    assert result.exit_code == 1
    lines = closing_lines(result.stdout)
    assert "1 failed" in lines["services/xds"]
    assert "1 passed" in lines["tests"]


def test_fast_leaves_out_what_needs_binaries_or_computes_much_and_needs_no_environment(
    runner: CliRunner, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "tests" / "test_live.py").write_text(
        "import pytest\n\n\n@pytest.mark.live\ndef test_live():\n    raise AssertionError\n"
        "\n\n@pytest.mark.thorough\ndef test_all():\n    raise AssertionError\n"
    )
    monkeypatch.setattr(suites, "prepare", lambda *_: pytest.fail("prepared something"))
    result = runner.invoke(app, ["test", "--fast"])
    assert result.exit_code == 0, result.output
    assert "1 passed, 2 deselected" in closing_lines(result.stdout)["tests"]


def test_only_fast_tries_few_examples_of_a_property(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "prepare", lambda jobs, *_: {job.name: Path() for job in jobs})
    fast, *_ = fast_suites([])
    whole = [suite for suite in chosen_suites([], Path("cache")) if suite.name == "tests"]
    assert [FEW_EXAMPLES[1] in suite.command for suite in (fast, *whole)] == [True, False]
    few, usual = (
        hypothesis.settings.get_profile(name) for name in (FEW_EXAMPLES[1], "no deadline")
    )
    assert (few.deadline, usual.deadline) == (None, None)
    assert 0 < few.max_examples < usual.max_examples


def test_the_policies_are_a_suite_in_their_own_environment(project: Path) -> None:
    (project / "policies" / "tests").mkdir(parents=True)
    (project / "policies" / "requirements-test.txt").write_text("")
    for arguments in ([], ["policies"]):
        found = {suite.name: suite for suite in chosen_suites(arguments, project / "cache")}
        assert found["policies"].folder == project / "policies"
        assert found["policies"].tests == (str(project / "policies" / "tests"),)
    assert set(found) == {"policies"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root may raise a priority")
def test_what_computes_gets_an_equal_share_once_all_others_have_ended(tmp_path: Path) -> None:
    script = "import os, time\nwhile os.nice(0):\n    time.sleep(0.01)"
    computing = Suite(
        name="computing", command=(sys.executable, "-c", script), folder=tmp_path, lane=COMPUTING
    )
    other = Suite(name="other", command=(sys.executable, "-c", ""), folder=tmp_path)
    assert run([computing, other])
