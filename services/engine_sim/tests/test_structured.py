"""Values that the simulator makes for schemas are valid under them."""

from __future__ import annotations

import contextlib
import json
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
    st.tuples(
        st.integers(-20, 20),
        st.integers(1, 10),
        st.sampled_from(["minimum", "exclusiveMinimum"]),
        st.sampled_from(["maximum", "exclusiveMaximum"]),
    ).map(lambda of: {"type": "number", of[2]: of[0] / 8, of[3]: (of[0] + of[1]) / 8}),
)
KEYWORDS = [
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "oneOf",
    "prefixItems",
    "properties",
    "required",
]
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
    ),
    max_leaves=5,
)
TYPES = st.sampled_from(["array", "integer", "number", "object", "string", ["null"], 5])


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


@given(TYPES, st.dictionaries(st.sampled_from(KEYWORDS), GARBAGE, min_size=1, max_size=3))
def test_whatever_a_schema_says_there_is_a_value_or_the_reason_why_not(
    kind: object, keywords: dict[str, Any]
) -> None:
    with contextlib.suppress(SchemaError):
        json.dumps(value_for({"type": kind, **keywords}))


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
        ({"required": 5}, "'required' must not be 5"),
        ({"type": "array", "minItems": "a"}, "'minItems' must not be 'a'"),
        ({"type": "string", "minLength": "a"}, "'minLength' must not be 'a'"),
        ({"type": "number", "multipleOf": 0}, "'multipleOf' must not be 0"),
        ({"type": "integer", "minimum": 0.5, "maximum": 0.9}, "no integer is within"),
    ],
)
def test_a_schema_without_a_value_says_why(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        value_for(schema)
