from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import ASKED_BY_HAND, Environment, exports, find
from cli.errors import CliError
from cli.reach.forwards import variables_of
from stacks.planning import make_plan
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan
from tests.unit.plan.samples import hosts_inputs
from tests.unit.toolchain.stand_ins import put_program
from toolchain.pins import tool_pin


def test_the_printed_exports_give_a_shell_the_same_values(
    runner: CliRunner, checkout: Path, environment: Environment
) -> None:
    printed = runner.invoke(app, ["env"]).stdout
    names = ("SLIPWAY_CACHE", "SLIPWAY_RUN", "SLIPWAY_SCRATCH", "PULUMI_HOME", "PULUMI_BACKEND_URL")
    shown = "; ".join(f'printf "%s\\n" "${name}"' for name in names)
    done = subprocess.run(
        ["/bin/sh", "-ec", f"{printed}\n{shown}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        str(environment.cache),
        str(checkout / ".slipway" / "dev"),
        str(environment.scratch),
        str(checkout / ".slipway" / "pulumi"),
        f"file://{quote(str(checkout))}/.slipway/state",
    ]


def test_nothing_is_said_of_clusters_before_they_run(runner: CliRunner, checkout: Path) -> None:
    printed = runner.invoke(app, ["env"]).stdout
    assert "unset NOMAD_TOKEN\n" in printed
    assert not re.findall(r"export (?:NOMAD_ADDR|NOMAD_TOKEN|CONSUL_HTTP_\w+)", printed)


def test_a_shell_asks_the_clusters_with_the_operators_tokens_and_none_is_printed(
    runner: CliRunner, checkout: Path, environment: Environment
) -> None:
    put_plan(checkout, plan_document())
    tokens = environment.run / "tokens"
    tokens.mkdir()
    for api in ("consul", "nomad"):
        (tokens / api).write_text(f"the-token-of-{api}\n")
        tool = f"{api}-{tool_pin(api).version}/{api}"
        put_program(environment.cache / "tools/bin" / tool, f"#!/bin/sh\necho {api} asks\n")
    printed = runner.invoke(app, ["env"]).stdout
    assert "the-token-of" not in printed
    asked = (
        'echo "$CONSUL_HTTP_ADDR" "$(cat "$CONSUL_HTTP_TOKEN_FILE")" "$CONSUL_CACERT";'
        ' echo "$NOMAD_ADDR" "$NOMAD_TOKEN" "$NOMAD_CLIENT_CERT" "$NOMAD_CLIENT_KEY";'
        ' consul; nomad; echo "${CONSUL_HTTP_TOKEN-none}"'
    )
    another = {"CONSUL_HTTP_TOKEN": "another's", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["/bin/sh", "-ec", f"{printed}\n{asked}"],
        env=another,
        capture_output=True,
        text=True,
        check=True,
    )
    operator = environment.run / "operator"
    assert done.stdout.splitlines() == [
        f"http://{NETWORK}.2:8500 the-token-of-consul {operator}/ca.pem",
        f"http://{NETWORK}.2:4646 the-token-of-nomad {operator}/cert.pem {operator}/key.pem",
        "consul asks",
        "nomad asks",
        "none",
    ]


def test_children_do_not_inherit_what_a_shell_asks_the_clusters_with(
    environment: Environment,
) -> None:
    passed = environment.child_environment(dict.fromkeys(ASKED_BY_HAND, "a shell's"))
    assert not {*ASKED_BY_HAND} & set(passed)


def test_exports_survive_quotes_and_spaces() -> None:
    value = """it's a "long" path; $HOME `id`"""
    script = exports({"X": value}) + 'printf %s "$X"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == value


def test_pulumi_is_first_on_the_path_exactly_once(environment: Environment) -> None:
    folder = str(environment.pulumi.parent)
    path = environment.variables({"PATH": f"/usr/bin:{folder}:/bin"})["PATH"].split(os.pathsep)
    assert path == [folder, "/usr/bin", "/bin"]


def test_children_do_not_inherit_this_programs_python_settings(environment: Environment) -> None:
    given = {"PYTHONPATH": "src", "VIRTUAL_ENV": "/v", "HOME": "/h", "PATH": "/bin"}
    passed = environment.child_environment(given)
    assert passed["PYTHONPATH"] == f"{environment.checkout}/src:{environment.checkout}"
    assert "VIRTUAL_ENV" not in passed
    assert passed["HOME"] == "/h"
    assert passed["PULUMI_HOME"] == str(environment.pulumi_home)


def test_children_do_not_inherit_how_another_environment_is_reached(
    environment: Environment,
) -> None:
    of_a_fleet = variables_of(make_plan(hosts_inputs()))
    assert len(of_a_fleet) == 3
    passed = environment.child_environment({**of_a_fleet, "PATH": "/bin"})
    assert not set(of_a_fleet) & set(passed)


def test_the_scratch_folder_is_short_and_of_one_environment_of_one_checkout(tmp_path: Path) -> None:
    def scratch(name: str, checkout: Path) -> Path:
        return Environment(name=name, checkout=checkout, cache=tmp_path).scratch

    deep = tmp_path / ("x" * 120)
    assert len(str(scratch("dev", deep))) <= 40
    assert len({scratch("dev", deep), scratch("dev2", deep), scratch("dev", tmp_path)}) == 3
    assert scratch("dev", deep) == scratch("dev", deep)


def test_the_folders_are_readable_by_their_owner_only(environment: Environment) -> None:
    environment.make_folders()
    try:
        for folder in (environment.home, environment.run, environment.scratch):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        environment.scratch.rmdir()


def test_a_scratch_folder_that_is_a_link_of_somebody_else_is_refused(
    environment: Environment, tmp_path: Path
) -> None:
    environment.scratch.symlink_to(tmp_path)
    try:
        with pytest.raises(CliError, match="belongs to another user"):
            environment.make_folders()
    finally:
        environment.scratch.unlink()


@pytest.mark.parametrize("name", ["../dev", "", ".", "a/b", "-x"])
def test_a_name_cannot_lead_out_of_the_checkout(checkout: Path, name: str) -> None:
    (checkout / ".slipway").mkdir()
    with pytest.raises(CliError) as refused:
        find(name)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("name", ["bin", "locks", "pulumi", "state"])
def test_a_name_that_would_share_a_folder_with_all_environments_is_refused(
    runner: CliRunner, checkout: Path, name: str
) -> None:
    kept = checkout / ".slipway" / name / "of-all"
    kept.mkdir(parents=True)
    (checkout / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    for command in (["down", "--yes"], ["up"], ["stop"]):
        result = runner.invoke(app, [*command, "-s", name])
        assert result.exit_code == 2
        assert f'no environment can be named "{name}"' in result.stderr
    assert kept.exists()


def test_the_state_is_found_in_folders_whose_names_mean_something_in_a_url(tmp_path: Path) -> None:
    checkout = tmp_path / "c# 100%2F?" / "ü"
    (checkout / "services" / "host").mkdir(parents=True)
    (checkout / "services" / "host" / "requirements.txt").touch()
    environment = Environment(name="dev", checkout=checkout, cache=tmp_path)
    url = urlsplit(environment.variables()["PULUMI_BACKEND_URL"])
    assert (url.scheme, url.query, url.fragment) == ("file", "", "")
    assert unquote(url.path) == str(environment.state)


def test_settings_of_the_users_other_backends_do_not_change_how_the_state_is_written(
    environment: Environment,
) -> None:
    settings = ("GZIP", "ZSTD", "LEGACY_LAYOUT")
    given = dict.fromkeys((f"PULUMI_DIY_BACKEND_{setting}" for setting in settings), "true")
    passed = environment.child_environment(given)
    assert {passed[name] for name in given} == {"false"}


def test_an_environment_without_its_file_is_found_while_it_has_state(checkout: Path) -> None:
    (checkout / ".slipway" / "gone").mkdir(parents=True)
    assert find("gone").run == checkout / ".slipway" / "gone"


def test_a_token_is_read_from_its_file(environment: Environment) -> None:
    assert environment.token("nomad") is None
    (environment.run / "tokens").mkdir(parents=True)
    (environment.run / "tokens" / "nomad").write_text("secret-id\n")
    assert environment.token("nomad") == "secret-id"
