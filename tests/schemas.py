"""Documents against their schemas: a schema is itself checked once, which takes longest."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[1] / "schemas"


def validate(document: Any, name: str, definition: str = "") -> None:
    """Raises `jsonschema.ValidationError` unless the document follows a schema of this checkout, or
    one of its definitions."""
    _validator(name, definition).validate(document)


@cache
def _validator(name: str, definition: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    if definition:
        schema = {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}
    return Draft202012Validator(schema)
