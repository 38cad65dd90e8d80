"""Tool calls and answers under a JSON schema: vLLM constrains the real model's output."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.live.environments import Platform

pytestmark = pytest.mark.live

MODEL = "smollm2"
# Unconstrained it says "The capital of France is Paris.": neither JSON nor one of these.
QUESTION: ChatCompletionMessageParam = {"role": "user", "content": "What is the capital of France?"}
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Lyon", "Nice"]}, "unit": {"enum": ["km", "mile"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}


@pytest.fixture
def client(platform: Platform) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{platform.http}/v1", api_key="unused")


def test_an_answer_keeps_to_the_json_schema_that_the_request_asks_for(
    client: openai.OpenAI,
) -> None:
    reply = client.chat.completions.create(
        model=MODEL,
        messages=[QUESTION],
        max_tokens=64,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}},
    )
    jsonschema.validate(json.loads(reply.choices[0].message.content or ""), CITY)


def test_a_named_tool_is_called_in_pieces_with_arguments_of_its_schema(
    client: openai.OpenAI,
) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[QUESTION],
        max_tokens=64,
        tools=[
            {
                "type": "function",
                # Not strict, its arguments could be any JSON (vLLM's --tool-strict-level).
                "function": {"name": "remember_city", "strict": True, "parameters": CITY},
            }
        ],
        tool_choice={"type": "function", "function": {"name": "remember_city"}},
        stream=True,
    )
    deltas = [choice.delta for chunk in stream for choice in chunk.choices]
    calls = [call.function for delta in deltas for call in delta.tool_calls or []]
    pieces = [call.arguments for call in calls if call and call.arguments]
    assert [call.name for call in calls if call and call.name] == ["remember_city"]
    assert len(pieces) > 1
    jsonschema.validate(json.loads("".join(pieces)), CITY)
