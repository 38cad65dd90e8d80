"""A small checkout in a temporary folder: a stack file and model files to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slipway.config.errors import ConfigError, Problem
from slipway.config.files import deployed_models, load_environment, load_models

ROOT = Path(__file__).parents[3]

ENVIRONMENT = """\
config:
  slipway:target: dev
  slipway:network: {cidr: 127.77.0.0/24}
  slipway:pools:
    cpu: {kind: local, nodes: 2}
    edge: {kind: local, nodes: 1}
  slipway:models:
    smollm2: {pool: cpu, replicas: {min: 1, max: 2}}
encryptionsalt: v1:not-a-secret
"""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "models").mkdir()
        (root / "Pulumi.dev.yaml").write_text(ENVIRONMENT)
        shutil.copy(ROOT / "models/smollm2.yaml", root / "models")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.root / file
        text = path.read_text()
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new))

    def problems(self) -> list[Problem]:
        """What reading this checkout complains about, all of it."""
        with pytest.raises(ConfigError) as caught:
            deployed_models(load_environment(self.root, "dev"), load_models(self.root, "models"))
        return list(caught.value.problems)

    def problem(self) -> Problem:
        problems = self.problems()
        assert len(problems) == 1, problems
        return problems[0]
