"""Pulumi.yaml, which describes the keys of environments to people and to Pulumi."""

from __future__ import annotations

import re

import pytest
import yaml

from slipway.config.aws import AwsPool, AwsSettings
from slipway.config.base import Tagged
from slipway.config.dev import DevSettings, LocalPool
from slipway.config.metal import MetalPool, MetalSettings
from slipway.config.settings import EnvironmentSettings
from tests.unit.config.checkout import ROOT

KEYS = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@pytest.mark.parametrize("pool", [LocalPool, AwsPool, MetalPool])
def test_every_key_of_a_pool_is_described_with_its_kind(pool: type[Tagged]) -> None:
    texts = re.split(r"(?={kind: )", KEYS["pools"]["description"])
    (described,) = [text for text in texts if text.startswith(f"{{kind: {pool.TAG}")]
    assert set(pool.model_fields) - words(described) == set()


@pytest.mark.parametrize("target", [DevSettings, AwsSettings, MetalSettings])
def test_a_key_that_pulumi_gives_to_every_environment_is_one_of_every_target(
    target: type[EnvironmentSettings],
) -> None:
    given = {name for name, key in KEYS.items() if "default" in key}
    assert given - set(target.model_fields) == set()


def test_every_number_of_servers_is_described() -> None:
    allowed = DevSettings.model_json_schema()["properties"]["servers"]["enum"]
    assert {str(count) for count in allowed} <= words(KEYS["servers"]["description"])


def test_the_example_of_a_local_pool_has_the_slot_that_keeps_its_addresses() -> None:
    assert "slot" in yaml.safe_load(LocalPool.EXAMPLE)
