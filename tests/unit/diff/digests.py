"""Previews to render: recorded ones, and what no dev environment has."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from slipway.diff.change import Stamp

RECORDINGS = Path(__file__).parent / "recordings"
RECORDED = sorted(path.stem for path in RECORDINGS.glob("*.json"))
STAMP = Stamp(commit="0123abc", time="2026-11-21 12:00 UTC", report="report.md")

PROJECT = "urn:pulumi:prod::slipway::"
PLATFORM = "slipway:index:Platform"
POOL = f"{PLATFORM}$slipway:index:NodePool"
MODEL = f"{PLATFORM}$slipway:index:ModelService"

Digest = dict[str, Any]


def recorded(name: str) -> Digest:
    document: Digest = json.loads((RECORDINGS / f"{name}.json").read_text())
    return document


def digest(*steps: Digest, **rest: Any) -> Digest:
    return {"config": {}, "duration": 1, "steps": list(steps), "changeSummary": {}, **rest}


def step(
    op: str,
    chain: str,
    name: str,
    old: Digest | None = None,
    new: Digest | None = None,
    *,
    parent: str = "",
    reasons: list[str] | None = None,
) -> Digest:
    """A step as the CLI prints one; `parent` is a chain of types and a name."""
    urn = f"{PROJECT}{chain}::{name}"

    def state(inputs: Digest | None) -> Digest | None:
        if inputs is None:
            return None
        type_ = chain.rpartition("$")[2]
        return {"urn": urn, "type": type_, "inputs": inputs, "parent": f"{PROJECT}{parent}"}

    states = {"oldState": state(old), "newState": state(new)}
    return {
        "op": op,
        "urn": urn,
        **{key: value for key, value in states.items() if value is not None},
        "diffReasons": reasons or [],
        "replaceReasons": reasons or [],
        "detailedDiff": None,
    }


def platform_facts(usd: float, at_most: float) -> Digest:
    cost = {"usd_per_hour": usd, "usd_per_hour_at_most": at_most, "price_date": "2026-11-21"}
    return {"environment": "prod", "cost": cost}


def pool_facts(nodes: int, usd: float) -> Digest:
    capacity = {"market": "on_demand", "usd_per_hour": usd}
    return {
        "pool": "h100",
        "kind": "aws",
        "nodes": nodes,
        "accelerator": "H100-80",
        "accelerators_per_node": 8,
        "capacity": capacity,
    }


def model_facts(ttft_goal_ms: int, *, met: bool, most: int) -> Digest:
    return {
        "model": "llama",
        "aliases": ["chat"],
        "pool": "h100",
        "scaling": {"min_replicas": 2, "max_replicas": most},
        "engine": {"max_model_len": 8192 if met else 16384, "max_num_seqs": 64},
        "goal": {"ttft_p95_ms": ttft_goal_ms, "tpot_p95_ms": 40},
        "capacity": {"meets_goal": met, "ttft_ms": 612.4, "tpot_ms": 31.0},
    }


def gpu_pool_replaced() -> Digest:
    """A pool of 16 H100 is replaced by one of 24; a machine moves to another subnet."""
    pool = f"{POOL}::pool-h100"
    machine = f"{POOL}$aws:ec2/instance:Instance"
    group = f"{POOL}$aws:autoscaling/group:Group"
    old, new = ({"instanceType": "p5.48xlarge", "subnetId": each} for each in ("a", "b"))
    replace: dict[str, Any] = {"parent": pool, "reasons": ["subnetId"]}
    return digest(
        step("update", PLATFORM, "platform", platform_facts(196.64, 196.64),
             platform_facts(294.96, 393.28)),
        step("update", POOL, "pool-h100", pool_facts(2, 196.64), pool_facts(3, 294.96),
             parent=f"{PLATFORM}::platform"),
        step("create-replacement", machine, "pool-h100", old, new, **replace),
        step("replace", machine, "pool-h100", old, new, **replace),
        step("delete-replaced", machine, "pool-h100", old, **replace),
        step("update", group, "pool-h100", {"maxSize": 2}, {"maxSize": 3}, parent=pool),
        step("same", MODEL, "model-llama", model_facts(800, met=True, most=4),
             parent=f"{PLATFORM}::platform"),
        changeSummary={"same": 40, "replace": 1, "update": 3},
    )  # fmt: skip


def promise_broken() -> Digest:
    """A model's goal is tightened below what its replicas can do, and its envelope grows."""
    return digest(
        step("update", PLATFORM, "platform", platform_facts(196.64, 196.64),
             platform_facts(196.64, 393.28)),
        step("same", POOL, "pool-h100", pool_facts(2, 196.64), parent=f"{PLATFORM}::platform"),
        step("update", MODEL, "model-llama", model_facts(800, met=True, most=4),
             model_facts(500, met=False, most=8), parent=f"{PLATFORM}::platform"),
        changeSummary={"same": 45, "update": 2},
    )  # fmt: skip


HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "</details><img src=x onerror=alert(1)>",
    "```\n# heading\n```",
    "`a` | b | @everyone --> <!-- slipway-diff:prod -->",
    "\u202egnirts\u200b",
)


def hostile_names() -> Digest:
    """Texts that would be markup, colours or mentions, everywhere a preview has texts."""
    steps = [
        step("delete", f"{POOL}$aws:ebs/volume:Volume", name, {"volumeSize": 1, "Name": name},
             parent=f"{POOL}::pool-{name}", reasons=[name])
        for name in HOSTILE
    ]  # fmt: skip
    updated = step(
        "update", f"{PLATFORM}$nomad:index/job:Job", "job", {"Name": "a", "ID": "x"},
        {"Name": HOSTILE[1], HOSTILE[3]: 1, "ID": HOSTILE[2]},
    )  # fmt: skip
    messages = [{"severity": severity, "message": text} for text in HOSTILE
                for severity in ("error", "warning")]  # fmt: skip
    return digest(*steps, updated, diagnostics=messages)


CANARY = "canary-7Qz"


def with_canaries() -> tuple[Digest, list[str]]:
    """The recorded change of every secret, with a different plain text in each secret's place, in
    each form that one may have, and quoted by an error."""
    document, canaries = recorded("seed_replaced"), list[str]()

    def fresh() -> str:
        canaries.append(f"{CANARY}{len(canaries)}x")
        return canaries[-1]

    def planted(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: planted(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [planted(item, key) for item in value]
        if value == "[secret]":
            return fresh() if len(canaries) % 2 else json.dumps({"password": fresh(), "n": 1})
        return value

    document["steps"] = [planted(each) for each in document["steps"]]
    signature = "4dabf18193072939515e22adb298388d"
    marked = {signature: "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(fresh())}

    def job(token: str, argument: str, template: str) -> str:
        task = {
            "Name": "t",
            "Env": {"HF_TOKEN": token, "PLAIN": argument},
            "Config": {"args": ["--api-key", argument]},
            "Templates": [{"DestPath": "x", "EmbeddedTmpl": f"user: {template}\nport: 1\n"}],
        }
        return json.dumps({"Job": {"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}})

    # An argument and a template's text have nothing about them that says secret.
    before = {"jobspec": job("a", "b", "c"), "Name": "plain", "password": "old-one"}
    after = {"jobspec": job(fresh(), fresh(), fresh()), "Name": marked, "password": fresh()}
    document["steps"].append(
        step("update", f"{PLATFORM}$nomad:index/job:Job", "with-secrets", before, after)
    )
    quoted = f"the server refused {canaries[0]} and {canaries[-1]}"
    document["diagnostics"] = [{"severity": "error", "message": quoted}]
    return document, canaries


def many(resources: int) -> Digest:
    """The recorded change of a model, for as many models as make that many resources."""
    document = recorded("model_changed")
    own = [each for each in document["steps"] if "smollm2" in each["urn"]]
    count, text = -(-resources // len(own)), json.dumps(own)
    names = [f"model{number:04}" for number in range(count)]
    steps = [each for name in names for each in json.loads(text.replace("smollm2", name))]
    summary = {"update": 3 * count, "replace": count, "same": 35}
    return {**document, "steps": steps, "changeSummary": summary}


def all_deleted(resources: int) -> Digest:
    steps = [
        step("delete", f"{POOL}$aws:ec2/instance:Instance", f"node-{number:04}", {},
             parent=f"{POOL}::pool-{number % 400}")
        for number in range(resources)
    ]  # fmt: skip
    return digest(*steps, changeSummary={"delete": resources})


def policy_report(**changes: Any) -> Digest:
    """As policies/check.py --json prints one."""
    finding = {
        "rule": "over-budget",
        "group": "cost",
        "level": "mandatory",
        "outcome": "violated",
        "resource": "platform",
        "type": PLATFORM,
        "message": "costs $294.96/h, the budget is $200.00/h",
        "why": "The budget is what somebody agreed to pay.",
        "fix": "Choose cheaper pools, or have `slipway:budget` raised.",
        "link": "docs/policies.md#over-budget",
    }
    waiver = {"owner": "ada@example.com", "reason": "a demo", "expires": "2027-01-31"}
    findings = [
        finding,
        {**finding, "rule": "idle-accelerators", "level": "advisory", "resource": "model-llama",
         "message": "uses 12% of its minimum of replicas"},
        {**finding, "rule": "change-over-budget", "outcome": "could not be evaluated",
         "message": "the cost before the change is not given"},
        {**finding, "rule": "spot-floor", "outcome": "waived", "waiver": waiver,
         "message": "all 2 replicas of its minimum are on spot machines"},
    ]  # fmt: skip
    expired = [{"rule": "public-ingress", "resource": "gateway", **waiver, "expires": "2026-01-31"}]
    return copy.deepcopy({
        "schema_version": 1,
        "environment": "prod",
        "stage": "production",
        "blocked": True,
        "rules": 44,
        "counts": {},
        "findings": findings,
        "expired_waivers": expired,
        "unused_waivers": [],
        **changes,
    })  # fmt: skip
