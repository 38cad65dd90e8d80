"""The text of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .request import Values
from .text import block, document, one_line

# Behind the values of `engine`.
COMMENTS: Mapping[str, Mapping[Any, str]] = {
    "dtype": {"float32": "bfloat16 on a CPU is faster and answers wrongly"},
    "quantization": {"fp8": "made from the published weights while they load"},
}


def model_text(values: Values, title: str) -> str:
    """The file with these values, as `scaffold.adding` decides them."""
    sections: dict[str, Any] = {}
    for key, value in values.items():
        if key == "engine":
            comments = {
                each: texts[value[each]]
                for each, texts in COMMENTS.items()
                if value.get(each) in texts
            }
            sections[key] = block(value, comments, indent=2)
        elif key == "source" and "sha256" in value:
            sections[key] = block(value)
        elif isinstance(value, Mapping):
            sections[key] = one_line(value)
        else:
            sections[key] = value
    return document(block(sections), title)
