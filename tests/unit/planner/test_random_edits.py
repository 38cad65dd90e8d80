"""Whatever is edited, nothing else moves or rolls."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.serving.nomad_job import replica_content
from slipway.config.document import Origin
from slipway.config.environment import parse_environment
from slipway.config.model import parse_model
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs

NAMES = ("a", "b", "c")
ENGINE = {"kind": "sim", "architecture": "llama-3.1-8b", "profile": "h100-fp8-llama-3.1-8b"}
BASE: dict[str, Any] = {
    "pools": {
        "cpu": {"kind": "local", "nodes": 2, "slot": 1},
        "edge": {"kind": "local", "nodes": 1, "slot": 2},
        "spare": {"kind": "local", "nodes": 1, "slot": 7},
    },
    "deployments": {name: {"pool": "cpu", "replicas": {"min": 1, "max": 2}} for name in NAMES},
    "models": {name: {"name": name, "engine": dict(ENGINE)} for name in NAMES},
}
Edit = Callable[[dict[str, Any]], tuple[set[str], set[str]]]  # -> (models, pools) that it names
NOTHING: tuple[set[str], set[str]] = (set(), set())


def planned(files: dict[str, Any]) -> PlatformPlan:
    values = {
        "target": "dev",
        "network": {"cidr": "127.77.0.0/24"},
        "pools": files["pools"],
        "models": files["deployments"],
    }
    models = {
        name: parse_model(as_read(model, files), origin=Origin(source=f"models/{name}.yaml"))
        for name, model in files["models"].items()
    }
    environment = parse_environment(as_read(values, files), name="dev", source="Pulumi.dev.yaml")
    return make_plan(replace(dev_inputs(), environment=environment, models=models))


def as_read(document: dict[str, Any], files: dict[str, Any]) -> Any:
    """The document as it is read from its file, with a comment at each of `comments`."""
    lines = yaml.dump(document, Dumper=yaml.CSafeDumper).splitlines()
    for position in files.get("comments", ()):
        lines.insert(position % (len(lines) + 1), "# a comment: of a person")
    return yaml.load("\n".join(lines), yaml.CSafeLoader)


def edits_of_models() -> st.SearchStrategy[Edit]:
    names = st.sampled_from(NAMES)

    def engine(name: str, sequences: int) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            if name in files["models"]:
                files["models"][name]["engine"]["max_num_seqs"] = sequences
            return {name}, set()

        return edit

    def replicas(name: str, most: int) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            if name in files["deployments"]:
                files["deployments"][name]["replicas"]["max"] = most
            return NOTHING  # an envelope rolls nothing

        return edit

    def removed(name: str) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            files["deployments"].pop(name, None)
            files["models"].pop(name, None)
            return {name}, set()

        return edit

    def added(sequences: int) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            engine = ENGINE | {"max_num_seqs": sequences}
            files["models"]["aa"] = {"name": "aa", "engine": engine}
            files["deployments"]["aa"] = {"pool": "cpu", "replicas": {"min": 1, "max": 1}}
            return {"aa"}, set()

        return edit

    return st.one_of(
        st.builds(engine, names, st.integers(1, 512)),
        st.builds(replicas, names, st.integers(1, 4)),
        st.builds(removed, names),
        st.builds(added, st.integers(1, 512)),
    )


def edits_of_pools() -> st.SearchStrategy[Edit]:
    def added(name: str, slot: int) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            if slot not in {pool["slot"] for pool in files["pools"].values()}:
                files["pools"].setdefault(name, {"kind": "local", "nodes": 1, "slot": slot})
            return set(), {name}

        return edit

    def grown(nodes: int) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            if "spare" in files["pools"]:
                files["pools"]["spare"]["nodes"] = nodes
            return set(), {"spare"}

        return edit

    def renamed(name: str) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            if "spare" in files["pools"] and name not in files["pools"]:
                files["pools"][name] = files["pools"].pop("spare")
            return set(), {"spare", name}

        return edit

    def removed(files: dict[str, Any]) -> tuple[set[str], set[str]]:
        files["pools"].pop("spare", None)
        return set(), {"spare"}

    new = st.sampled_from(["aaa", "dots", "zzz"])
    return st.one_of(
        st.builds(added, new, st.integers(8, 15)),
        st.builds(grown, st.integers(1, 4)),
        st.builds(renamed, new),
        st.just(removed),
    )


def edits_of_comments() -> st.SearchStrategy[Edit]:
    def commented(positions: list[int]) -> Edit:
        def edit(files: dict[str, Any]) -> tuple[set[str], set[str]]:
            files["comments"] = positions
            return NOTHING

        return edit

    return st.builds(commented, st.lists(st.integers(0, 40), max_size=4))


EDITS = st.one_of(edits_of_models(), edits_of_pools(), edits_of_comments())


@settings(max_examples=60)
@given(st.lists(EDITS, min_size=1, max_size=4))
def test_edits_move_and_roll_only_what_they_name(edits: list[Edit]) -> None:
    files = copy.deepcopy(BASE)
    before = planned(files)
    named = [edit(files) for edit in edits]
    models, pools = (set().union(*each) for each in zip(*named, strict=True))
    after = planned(files)
    contents = {model.name: (model.stable.job_id, replica_content(model)) for model in after.models}
    for model in before.models:
        if model.name not in models:
            assert contents[model.name] == (model.stable.job_id, replica_content(model))
    hosts = {pool.name: pool.hosts for pool in after.pools}
    for pool in before.pools:
        if pool.name not in pools:
            assert hosts[pool.name] == pool.hosts
    assert after.gateway == before.gateway
    assert after.servers == before.servers


def test_an_edited_engine_rolls_its_model() -> None:
    files = copy.deepcopy(BASE)
    before = planned(files)
    files["models"]["a"]["engine"]["max_num_seqs"] = 3
    after = planned(files)
    assert before.models[0].stable.job_id != after.models[0].stable.job_id
