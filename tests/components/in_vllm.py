"""Programs that the pinned vLLM's interpreter runs beside the launcher's code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.config.artifacts import REQUIREMENTS
from tests.unit.plan.samples import ROOT
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache


def answers_of_vllm(
    program: str, documents: Mapping[str, Any], folder: Path, variables: Mapping[str, str]
) -> dict[str, Any]:
    """What the program prints last for documents on its standard input: a JSON object with their
    names. It is given the path of a folder of its own."""
    vllm = environment_folder("vllm", ROOT / REQUIREMENTS["vllm"], default_cache())
    done = subprocess.run(
        [str(vllm / "bin/python"), "-c", program, str(folder)],
        input=json.dumps(documents),
        cwd=ROOT / "services/triton_vllm",
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answers.keys() == documents.keys()
    return answers
