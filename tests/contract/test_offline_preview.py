"""The recording engine against the real one, on the dev environment of this checkout."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.environment import Environment
from cli.environment import find as find_environment
from cli.lifecycle.local.backend import own_pulumi, prepare_stack
from cli.pulumi.offline import offline_preview
from cli.pulumi.plugins import prepare_plugins
from stacks.recording import STACK, UNKNOWN
from tests.binaries import find
from tests.live.environments import copy_tree

pytestmark = pytest.mark.binaries

# What the engine adds to the inputs of an explicit provider: the plugin that it chose.
OF_THE_ENGINE = {"version", "__internal"}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """dev in a checkout of its own, never brought up."""
    find("pulumi")
    checkout = tmp_path / "checkout"
    copy_tree(checkout)
    (checkout / ".venv").symlink_to(sys.prefix)
    return find_environment("dev", checkout=checkout)


def steps_of_the_real_engine(environment: Environment, capfd: Any) -> list[dict[str, Any]]:
    environment.make_pulumi_folders()
    prepare_plugins(environment)
    pulumi = own_pulumi(environment)
    prepare_stack(pulumi)
    capfd.readouterr()
    code = pulumi.preview(["--json", "--refresh=false"])
    printed = capfd.readouterr()
    assert code == 0, printed.out + printed.err
    steps: list[dict[str, Any]] = json.loads(printed.out)["steps"]
    return [step for step in steps if step["newState"]["type"] != STACK]


def marked(value: Any) -> Any:
    """A value of `pulumi preview --json` as an offline preview has it."""
    if isinstance(value, dict):
        return {key: marked(part) for key, part in value.items()}
    if isinstance(value, list):
        return [marked(part) for part in value]
    return {"<unknown>": True} if value == UNKNOWN else value


def test_an_offline_preview_is_what_the_real_engine_previews_for_a_first_up(
    environment: Environment, capfd: pytest.CaptureFixture[str]
) -> None:
    resources = offline_preview(environment)["resources"]
    steps = steps_of_the_real_engine(environment, capfd)
    assert {step["op"] for step in steps} == {"create"}
    expected = {
        step["urn"]: (
            step["newState"]["type"],
            step["newState"].get("protect", False),
            {
                key: marked(value)
                for key, value in step["newState"].get("inputs", {}).items()
                if key not in OF_THE_ENGINE
            },
        )
        for step in steps
    }
    assert len(expected) > 25
    assert {
        found["urn"]: (found["type"], found["protect"], found["inputs"]) for found in resources
    } == expected
