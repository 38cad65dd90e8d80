"""Stands in for transformers: 'converts' by copying, slowly or not at all if told so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


class GgufConfig:
    def __init__(self, *, dequantize: bool) -> None:
        assert dequantize


class AutoModelForCausalLM:
    def __init__(self, content: bytes) -> None:
        self.content = content

    @classmethod
    def from_pretrained(cls, folder: str, gguf_file: str, **_: Any) -> AutoModelForCausalLM:
        if error := os.environ.get("FAKE_CONVERSION_ERROR"):
            raise ValueError(error)
        return cls((Path(folder) / gguf_file).read_bytes())

    def save_pretrained(self, target: Path) -> None:
        (target / "config.json").write_text("{}")
        (target / "model.safetensors").write_bytes(self.content)
        with Path(os.environ["FAKE_CONVERSIONS"]).open("a") as log:
            log.write("conversion\n")
        time.sleep(float(os.environ.get("FAKE_CONVERSION_S", "0")))


class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, _folder: str, **_: Any) -> AutoTokenizer:
        return cls()

    def save_pretrained(self, target: Path) -> None:
        (target / "tokenizer.json").write_text("{}")
