"""Values that the simulator makes for schemas are valid under them."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.structured import SchemaError, value_for

NAMES = st.sampled_from(["a", "b", "c/d", "e~f"])
NUMBERS = st.integers(-9, 9)
LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": ["null", "string"]}),
    st.just({"enum": ["x", 1, None]}),
    st.just({"const": {"a": 1}}),
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": st.integers(0, 20)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": NUMBERS,
            "exclusiveMinimum": NUMBERS,
            "multipleOf": st.integers(1, 5),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("integer")}, optional={"maximum": NUMBERS, "exclusiveMaximum": NUMBERS}
    ),
    st.fixed_dictionaries({"type": st.just("string"), "maxLength": st.integers(0, 5)}),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(NAMES, inner, max_size=3).flatmap(
        lambda properties: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(properties),
                "required": st.just(sorted(properties)),
                "additionalProperties": st.just(False),
            }
        )
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner, "minItems": st.integers(0, 2)}
    )
    return st.one_of(objects, lists, st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1)}))


@given(st.recursive(LEAVES, nested, max_leaves=8))
def test_a_value_is_valid_under_its_schema_and_always_the_same(schema: Any) -> None:
    value = value_for(schema)
    jsonschema.validate(value, schema)
    assert value == value_for(schema)


def test_references_lead_to_definitions_also_of_the_schema_itself() -> None:
    schema = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
                "required": ["next"],
            }
        },
        "allOf": [{"$ref": "#/$defs/node"}, {"properties": {"a": {"const": 1}}, "required": ["a"]}],
    }
    value = value_for(schema)
    jsonschema.validate(value, schema)
    assert value == {"next": None, "a": 1}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#"}, "has no end"),
        ({"required": ["a"], "properties": {"a": {"$ref": "#"}}}, "has no end"),
        ({"type": "string", "pattern": "^a+$"}, "'pattern' is not supported"),
        ({"type": "file"}, "type 'file' is not supported"),
        ("string", "must be an object"),
    ],
)
def test_a_schema_without_a_value_says_why(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        value_for(schema)
