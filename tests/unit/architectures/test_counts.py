"""What is read from config.json, against transformers: parameters on the meta device, defaults."""

from __future__ import annotations

import datetime
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slipway.architectures.architecture import architecture_of
from slipway.architectures.families import FAMILIES
from slipway.architectures.parameters import count
from slipway.config.artifacts import REQUIREMENTS
from tests.unit.architectures.transformers_cases import TEXT, VISION
from tests.unit.config.checkout import ROOT
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

SCRIPT = Path(__file__).with_name("transformers_configs.py")
DATE = datetime.date(2026, 11, 26)

# Not a class of transformers: DeepSeek-V3's architecture under a name of its own.
OTHER_NAMES = {"kimi_k2"}


def test_every_kind_that_can_be_read_is_compared() -> None:
    compared = {case[0] for case in (*TEXT.values(), *VISION.values())}
    assert compared | OTHER_NAMES == FAMILIES.keys()


def test_every_kind_that_can_be_read_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "planning.md").read_text()
    assert [kind for kind in FAMILIES if f"`{kind}`" not in text] == []


@pytest.mark.binaries
@pytest.mark.parametrize("name", [*TEXT, *VISION])
def test_transformers_builds_as_many_parameters(name: str) -> None:
    built = _built()["counts"][name]
    architecture = architecture_of(built["config"], source=name, date=DATE)
    assert count(architecture).total == built["parameters"]


@pytest.mark.binaries
@pytest.mark.parametrize("kind", sorted({kind for kind, _ in TEXT.values()}))
def test_what_a_file_may_leave_out_is_as_in_transformers(kind: str) -> None:
    own = _built()["defaults"][kind]
    ours = FAMILIES[kind].defaults
    assert {key: own[key] for key in ours if _stays(own, ours, key)} == {
        key: ours[key] for key in ours if _stays(own, ours, key)
    }


def _stays(own: dict[str, Any], ours: Any, key: str) -> bool:
    """Whether the class keeps the default: it replaces null, and windows that are not used."""
    return own.get(key) is not None and ours[key] is not None


@cache
def _built() -> dict[str, Any]:
    environment = environment_folder("vllm", ROOT / REQUIREMENTS["vllm"], default_cache())
    python = environment / "bin" / "python"
    if not python.is_file():
        pytest.skip("no environment with transformers: run `slipway up` or `slipway test`")
    run = subprocess.run([python, SCRIPT], capture_output=True, text=True, check=True)
    built: dict[str, Any] = json.loads(run.stdout)
    return built
