from __future__ import annotations

import json
from pathlib import Path

from cli.environment import Environment
from cli.pulumi.state import forget, read_state


def put_checkpoint(environment: Environment, latest: dict[str, object]) -> Path:
    folder = environment.state / ".pulumi" / "stacks" / "slipway"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{environment.name}.json"
    path.write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))
    return path


def test_a_stack_that_was_never_made_has_no_state(environment: Environment) -> None:
    assert read_state(environment) is None


def test_a_new_stack_needs_no_cluster(environment: Environment) -> None:
    put_checkpoint(environment, {"manifest": {}})
    state = read_state(environment)
    assert state is not None
    assert not state.needs_cluster
    assert state.interrupted == ()


def test_jobs_and_keys_need_the_cluster_and_commands_do_not(environment: Environment) -> None:
    command = {"type": "command:local:Command"}
    for kind, needs in (
        ("nomad:index/job:Job", True),
        ("consul:index/keys:Keys", True),
        ("random:index/randomUuid:RandomUuid", False),
    ):
        put_checkpoint(environment, {"resources": [command, {"type": kind}]})
        state = read_state(environment)
        assert state is not None
        assert state.needs_cluster is needs


def test_only_interrupted_creations_count_as_such(environment: Environment) -> None:
    put_checkpoint(
        environment,
        {
            "pending_operations": [
                {"type": "creating", "resource": {"urn": "urn:pulumi:dev::slipway::a:b:C::envoy"}},
                {"type": "updating", "resource": {"urn": "urn:pulumi:dev::slipway::a:b:C::xds"}},
            ]
        },
    )
    state = read_state(environment)
    assert state is not None
    assert state.interrupted == ("envoy",)


def test_protected_resources_are_named(environment: Environment) -> None:
    resources = [
        {"type": "a:b:C", "urn": "kept", "protect": True},
        {"type": "a:b:C", "urn": "free", "protect": False},
        {"type": "a:b:C", "urn": "plain"},
    ]
    put_checkpoint(environment, {"resources": resources})
    state = read_state(environment)
    assert state is not None
    assert state.protected == ("kept",)


def test_forgetting_a_stack_leaves_others_alone(environment: Environment) -> None:
    other = Environment(name="dev2", checkout=environment.checkout, cache=environment.cache)
    mine, kept = put_checkpoint(environment, {}), put_checkpoint(other, {})
    backup = mine.with_name("dev.json.bak")
    backup.write_text("{}")
    forget(environment)
    assert read_state(environment) is None
    assert not backup.exists()
    assert kept.exists()
    forget(environment)  # and once more, where nothing is left
