"""config.json files as transformers writes them, with its own parameter counts.

Runs in the vLLM environment, which has torch and transformers, and imports nothing else of the
project but the cases beside it. Writes

    {"counts": {name of the case: {"config": the file, "parameters": on the meta device}},
     "defaults": {model type: the defaults of its class}}
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers_cases import TEXT, VISION, Values


def main() -> None:
    transformers.logging.set_verbosity_error()
    counts = {name: _text(*case) for name, case in TEXT.items()}
    counts |= {name: _with_vision(*case) for name, case in VISION.items()}
    kinds = {kind for kind, _ in TEXT.values()}
    defaults = {kind: _plain(CONFIG_MAPPING[kind]()) for kind in kinds}
    json.dump({"counts": counts, "defaults": defaults}, sys.stdout)


def _text(kind: str, values: Values) -> Values:
    config = CONFIG_MAPPING[kind](**values)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return _counted(config, model, values)


def _with_vision(kind: str, text: Values, vision: Values, top: Values) -> Values:
    config = CONFIG_MAPPING[kind](text_config=dict(text), vision_config=dict(vision), **top)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    return _counted(config, model, {})


def _counted(config: Any, model: Any, stated: Values) -> Values:
    """The file says only what differs from the defaults, and what this case states."""
    # A tied table is one tensor under two names, and parameters() names it once.
    parameters = sum(parameter.numel() for parameter in model.parameters())
    file = json.loads(config.to_json_string(use_diff=True)) | stated
    return {"config": file, "parameters": parameters}


def _plain(config: Any) -> Values:
    return json.loads(config.to_json_string(use_diff=False))


if __name__ == "__main__":
    main()
