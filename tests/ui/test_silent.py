"""The page of a platform of which parts do not answer, or answer what this command cannot read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CliError
from cli.ui.observation import Observation
from tests.ui.fake_platform import running
from tests.ui.served_page import served_by

NOWHERE = "http://127.0.0.1:1"


@dataclasses.dataclass
class Fails:
    error: Exception

    def observe(self) -> Observation:
        raise self.error


@pytest.mark.parametrize(
    ("silent", "says"),
    [
        ({"nomad": NOWHERE}, "nomad does not answer"),
        ({"prometheus": NOWHERE}, "prometheus does not answer"),
        ({"envoy_metrics": (NOWHERE,)}, "envoy does not answer"),
        ({"xds": (NOWHERE,)}, "xds does not answer"),
    ],
)
def test_a_part_that_does_not_answer_is_named_and_the_rest_is_shown(
    tmp_path: Path, silent: dict[str, Any], says: str
) -> None:
    with running(["llama"], tmp_path) as (platform, environment):
        platform.applied = dataclasses.replace(platform.applied, **silent)
        with served_by(platform, environment) as page, page.visitor() as visitor:
            text = visitor.get("/").text
            charts = visitor.get("/charts")
    assert says in text
    assert "llama" in text
    assert charts.status_code == (502 if "prometheus" in silent else 200)


def test_what_this_command_cannot_read_is_said_on_the_page(tmp_path: Path) -> None:
    error = CliError("/status answers in schema_version 9", fix="use another checkout")
    assert "answers in schema_version 9" in shown(tmp_path, error, 502)


def test_a_defect_is_said_on_the_page_and_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "A defect of Slipway: /: KeyError" in shown(tmp_path, KeyError("<b>"), 500)
    assert "a defect of Slipway: /: KeyError" in capsys.readouterr().err


def shown(folder: Path, error: Exception, status: int) -> str:
    """What a visitor sees while the platform cannot be observed."""
    with (
        running(["llama"], folder) as (platform, environment),
        served_by(platform, environment, Fails(error)) as page,
        page.visitor() as visitor,
    ):
        answer = visitor.get("/")
    assert answer.status_code == status
    assert "<b>" not in answer.text
    return answer.text
