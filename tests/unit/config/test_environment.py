from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError
from slipway.config.files import load_environment
from tests.unit.config.checkout import ROOT, Checkout

FILE = "Pulumi.dev.yaml"

# what is written instead of what, then the complaint: line, key, value, words in message and fix
MISTAKES = {
    "an unknown target": (
        ("slipway:target: dev", "slipway:target: dve"),
        (2, "slipway:target", "dve", "'dev'", 'did you mean "dev"?'),
    ),
    "no target": (
        ("  slipway:target: dev\n", ""),
        (1, "slipway:target", None, "'dev', 'aws' or 'metal'", "add `target:`"),
    ),
    "a target of a fleet that is none": (
        ("slipway:target: dev", "slipway:target: aws2"),
        (2, "slipway:target", "aws2", "'dev', 'aws' or 'metal'", 'did you mean "aws"?'),
    ),
    "two targets": (
        ("slipway:target: dev", "slipway:target: [dev]"),
        (2, "slipway:target", ["dev"], "'dev', 'aws' or 'metal'", 'did you mean "dev"?'),
    ),
    "an unknown top-level key": (
        ("slipway:target", "slipway:servres: 1\n  slipway:target"),
        (2, "slipway:servres", 1, "unknown key", 'did you mean "servers"?'),
    ),
    "an unknown key of a pool": (
        ("edge: {kind: local, nodes: 1", "edge: {kind: local, nodes: 1, memry: 1GiB"),
        (6, "slipway:pools.edge.memry", "1GiB", "unknown key", 'did you mean "memory"?'),
    ),
    "a key without namespace": (
        ("slipway:target", "servers: 3\n  slipway:target"),
        (2, "config.servers", None, "no namespace", "slipway:servers"),
    ),
    "two servers": (
        ("slipway:target: dev", "slipway:target: dev\n  slipway:servers: 2"),
        (3, "slipway:servers", 2, "1, 3 or 5", "allowed"),
    ),
    "a network of the office": (
        ("127.77.0.0/24", "10.0.0.0/24"),
        (3, "slipway:network.cidr", "10.0.0.0/24", "127.0.0.0/8", "127.77.0.0/24"),
    ),
    "a network too small": (
        ("127.77.0.0/24", "127.77.0.0/25"),
        (3, "slipway:network.cidr", "127.77.0.0/25", "/24 or larger", "127.77.0.0/24"),
    ),
    "a network with host bits": (
        ("127.77.0.0/24", "127.77.0.1/24"),
        (3, "slipway:network.cidr", "127.77.0.1/24", "not an IPv4 network", "127.77.0.0/24"),
    ),
    "the network of localhost": (
        ("127.77.0.0/24", "127.0.0.0/16"),
        (3, "slipway:network.cidr", "127.0.0.0/16", "127.0.0.1", "127.77.0.0/24"),
    ),
    "an unknown kind of pool": (
        ("edge: {kind: local", "edge: {kind: locl"),
        (6, "slipway:pools.edge.kind", "locl", "'local'", 'did you mean "local"?'),
    ),
    "no nodes": (
        ("nodes: 2", "nodes: 0"),
        (5, "slipway:pools.cpu.nodes", 0, "at least 1", "1 or more"),
    ),
    "more nodes than addresses": (
        ("nodes: 2", "nodes: 17"),
        (5, "slipway:pools.cpu.nodes", 17, "at most 16", "16 or less"),
    ),
    "nodes in words": (
        ("nodes: 2", "nodes: two"),
        (5, "slipway:pools.cpu.nodes", "two", "whole number", "whole number"),
    ),
    "a decimal unit": (
        ("nodes: 2", "nodes: 2, memory: 4GB"),
        (5, "slipway:pools.cpu.memory", "4GB", "KiB, MiB, GiB, TiB", '"4GiB"'),
    ),
    "a size without unit": (
        ("nodes: 2", "nodes: 2, memory: 4"),
        (5, "slipway:pools.cpu.memory", 4, "KiB, MiB, GiB, TiB", '"4GiB"'),
    ),
    "a pool name no host can have": (
        ("edge: {kind", "edge_1: {kind"),
        (6, "slipway:pools.edge_1", "edge_1", "lower-case letters", "cpu-large"),
    ),
    "a pool name of Nomad's own": (
        ("edge: {kind", "default: {kind: local, nodes: 1}\n    edge: {kind"),
        (6, "slipway:pools.default", "default", "a name that Nomad reserves", "rename"),
    ),
    "an unknown pool": (
        ("pool: cpu", "pool: cpus"),
        (8, "slipway:models.smollm2.pool", "cpus", "does not have", 'did you mean "cpu"?'),
    ),
    "a model that does not exist": (
        ("smollm2: {pool", "smolm2: {pool"),
        (8, "slipway:models.smolm2", None, "no model of this name", 'did you mean "smollm2"?'),
    ),
    "more replicas at least than at most": (
        ("min: 1, max: 2", "min: 3, max: 2"),
        (8, "slipway:models.smollm2.replicas", {"min": 3, "max": 2}, "greater", "raise max to 3"),
    ),
    "at most no replica": (
        ("max: 2", "max: 0"),
        (8, "slipway:models.smollm2.replicas.max", 0, "at least 1", "1 or more"),
    ),
    "one replica of surge": (
        ("max: 2}", "max: 2}, surge: 1"),
        (8, "slipway:models.smollm2.surge", 1, "must be 0", "`surge: 0`, or remove"),
    ),
    "no surge in words": (
        ("max: 2}", "max: 2}, surge: false"),
        (8, "slipway:models.smollm2.surge", False, "must be 0", "`surge: 0`, or remove"),
    ),
    "a missing maximum": (
        (", max: 2", ""),
        (8, "slipway:models.smollm2.replicas.max", None, "required", "add `max:`"),
    ),
    "a missing network": (
        ("  slipway:network: {cidr: 127.77.0.0/24}\n", ""),
        (1, "slipway:network", None, "required", "add `network:`"),
    ),
    "a privileged port": (
        ("slipway:target: dev", "slipway:target: dev\n  slipway:gateway: {port: 80}"),
        (3, "slipway:gateway.port", 80, "at least 1024", "1024 or more"),
    ),
    "a gateway in no pool": (
        ("slipway:target: dev", "slipway:target: dev\n  slipway:gateway: {pool: edg}"),
        (3, "slipway:gateway.pool", "edg", "does not have", 'did you mean "edge"?'),
    ),
    "a key written twice": (
        ("nodes: 2}", "nodes: 2, nodes: 3}"),
        (5, "config.slipway:pools.cpu.nodes", None, "written twice", "keep one"),
    ),
    "a list where keys belong": (
        ("{kind: local, nodes: 2}", "[local, 2]"),
        (5, "slipway:pools.cpu", ["local", 2], "mapping", "e.g. {kind: local, nodes: 2, slot: 1}"),
    ),
    "replicas without their limits": (
        ("{min: 1, max: 2}", "2"),
        (8, "slipway:models.smollm2.replicas", 2, "mapping", "e.g. {min: 1, max: 2}"),
    ),
    "a folder that YAML takes for a number": (
        ("slipway:target: dev", "slipway:target: dev\n  slipway:models_dir: 2026"),
        (3, "slipway:models_dir", 2026, "must be text", "in quotes: YAML reads it as a number"),
    ),
    "a size beyond everything": (
        ("nodes: 2", "nodes: 2, memory: 2048TiB"),
        (5, "slipway:pools.cpu.memory", "2048TiB", "at most 1024TiB", "1024TiB or less"),
    ),
}


@pytest.mark.parametrize(("edit", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_its_place_its_value_and_its_fix(
    checkout: Checkout, edit: tuple[str, str], complaint: tuple[Any, ...]
) -> None:
    line, key, value, message, fix = complaint
    checkout.edit(FILE, *edit)
    problem = checkout.problem()
    assert (problem.source, problem.line, problem.key) == (FILE, line, key)
    assert problem.value == value
    assert message in problem.message
    assert fix in problem.fix


def test_the_text_of_a_problem_has_all_its_parts(checkout: Checkout) -> None:
    checkout.edit(FILE, "nodes: 2", "nodes: 0")
    assert str(checkout.problem()) == (
        "Pulumi.dev.yaml:5: slipway:pools.cpu.nodes: must be at least 1 (found 0)\n"
        "    fix: use 1 or more"
    )


def test_all_mistakes_of_a_file_are_reported_at_once(checkout: Checkout) -> None:
    checkout.edit(FILE, "nodes: 2", "nodes: 0")
    checkout.edit(FILE, "127.77.0.0/24", "10.0.0.0/24")
    checkout.edit(FILE, "slipway:target", "servers: 1\n  slipway:target")
    lines = [problem.line for problem in checkout.problems()]
    assert lines == [2, 4, 6], "in file order"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("config:\n  a: [1, 2\n", 3, "not valid YAML"),
        ("- a list\n", None, "mapping"),
        ("encryptionsalt: v1:x\n", None, "mapping of slipway:<key>"),
        ("", None, "mapping of slipway:<key>"),
    ],
)
def test_a_file_that_is_not_a_stack_file_is_refused(
    checkout: Checkout, text: str, line: int | None, message: str
) -> None:
    (checkout.root / FILE).write_text(text)
    problem = checkout.problem()
    assert message in problem.message
    if line is not None:
        assert problem.line == line


def test_an_unknown_environment_offers_the_nearest(checkout: Checkout) -> None:
    with pytest.raises(ConfigError) as caught:
        load_environment(checkout.root, "div")
    (problem,) = caught.value.problems
    assert problem.source == "Pulumi.div.yaml"
    assert problem.fix == 'did you mean "dev"?'


def test_a_file_that_is_not_text_is_refused(checkout: Checkout) -> None:
    (checkout.root / FILE).write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in checkout.problem().message


def test_pulumis_own_form_gives_the_same_environment_as_the_file() -> None:
    from_file = load_environment(ROOT, "dev")
    texts = {
        "slipway:target": "dev",
        "slipway:servers": "1",
        "slipway:gateway": "{}",
        "slipway:monitoring": "{}",
        "slipway:models_dir": "models",
        "slipway:network": json.dumps({"cidr": "127.77.0.0/24"}),
        "slipway:pools": json.dumps(
            {
                "cpu": {"kind": "local", "nodes": 2, "slot": 1},
                "edge": {"kind": "local", "nodes": 1, "memory": "2GiB", "slot": 2},
            }
        ),
        "slipway:models": json.dumps(
            {"smollm2": {"pool": "cpu", "replicas": {"min": 1, "max": 2}}}
        ),
        "aws:region": "not ours",
    }
    from_pulumi = parse_environment(texts, name="dev", source="Pulumi.dev.yaml")
    assert from_pulumi.settings == from_file.settings


def test_a_mistake_in_pulumis_form_names_the_key() -> None:
    values = {"slipway:target": "dev", "slipway:network": "{}", "slipway:pools": "[]"}
    with pytest.raises(ConfigError) as caught:
        parse_environment(values, name="dev", source="Pulumi.dev.yaml")
    assert [problem.key for problem in caught.value.problems] == [
        "slipway:models",
        "slipway:network.cidr",
        "slipway:pools",
    ]


def test_settings_cannot_be_changed_after_reading() -> None:
    settings = load_environment(ROOT, "dev").settings
    with pytest.raises(ValueError, match="frozen"):
        settings.servers = 3
