"""Chat Completions, Responses and Messages, by the official SDKs."""

from __future__ import annotations

import http.client
import json
from typing import Any

import jsonschema
import pytest
from api_answers import check_right_requests, check_wrong_requests
from api_requests import PATHS, RIGHT, TOOL_SCHEMA, Api, body_for
from engine_sim_process import SimProcess
from sdk_clients import clients
from simulator.messages_api.errors import refusal


async def test_the_sdks_types_read_all_that_the_three_apis_answer(replica: SimProcess) -> None:
    assert await check_right_requests(replica.openai, "small") >= 40


async def test_wrong_requests_get_the_statuses_and_errors_of_their_apis(
    replica: SimProcess,
) -> None:
    assert await check_wrong_requests(replica.openai, "small") >= 15


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_choice": {"type": []}},
        {"tools": [{"name": "get_weather", "input_schema": {"required": 5}}]},
    ],
)
async def test_what_is_no_choice_or_no_schema_is_refused(
    replica: SimProcess, wrong: dict[str, Any]
) -> None:
    body = body_of("messages", "tools, tool_choice any", **wrong)
    async with clients(replica.openai) as sdks:
        assert (await sdks.refusal("messages", body)).status == 400


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, "permission_error"),
        (405, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
    ],
)
def test_errors_of_messages_have_the_types_that_vllms_have(status: int, kind: str) -> None:
    assert refusal(status, "why")[1]["error"] == {"type": kind, "message": "why"}


def body_of(api: Api, feature: str, **changes: Any) -> dict[str, Any]:
    request = next(each for each in RIGHT if (each.api, each.feature) == (api, feature))
    body = body_for("small", request)
    assert isinstance(body, dict)
    return {**body, **changes}


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
async def test_a_tool_that_the_user_names_is_called_in_each_api(
    replica: SimProcess, api: Api
) -> None:
    async with clients(replica.openai) as sdks:
        answered = await sdks.ask(api, body_of(api, "tools, tool_choice auto"))
        repeated = await sdks.stream(api, body_of(api, "tools, tool_choice auto"))
        after = await sdks.ask(api, body_of(api, "results of tools"))
    ((_, arguments),) = answered.calls
    jsonschema.validate(arguments, TOOL_SCHEMA)
    assert repeated.calls == answered.calls
    assert not after.calls


async def test_instructions_after_the_users_message_do_not_hide_it(replica: SimProcess) -> None:
    """Claude Code ends each turn with reminders."""
    body = body_of("messages", "tools, tool_choice auto")
    body["messages"] = [*body["messages"], {"role": "system", "content": "Mind the time."}]
    async with clients(replica.openai) as sdks:
        assert len((await sdks.ask("messages", body)).calls) == 1


async def test_a_call_that_is_cut_short_is_text_and_says_so(replica: SimProcess) -> None:
    async with clients(replica.openai) as sdks:
        cut = await sdks.ask("chat", body_of("chat", "tools, called by name", max_tokens=2))
    assert (cut.calls, cut.ends, cut.tokens) == ([], "length", 2)


async def test_a_message_names_the_stop_sequence_that_ended_it(replica: SimProcess) -> None:
    body = body_of("messages", "text", stop_sequences=["w9", "w4 "], max_tokens=50)
    async with clients(replica.openai) as sdks:
        body.pop("temperature")
        message = await sdks.anthropic.messages.create(**body)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "w4 ")


@pytest.mark.parametrize(
    ("api", "limit", "ends"),
    [("responses", "max_output_tokens", "completed"), ("messages", "max_tokens", "end_turn")],
)
async def test_an_answer_below_its_limit_ends_by_itself(
    replica: SimProcess, api: Api, limit: str, ends: str
) -> None:
    """Agents ask for thousands of tokens, and go on until an answer has ended."""
    async with clients(replica.openai) as sdks:
        answered = await sdks.ask(api, body_of(api, "text", **{limit: 1000}))
    assert (answered.ends, answered.tokens) == (ends, 128)


async def test_tokens_are_counted_as_a_message_counts_them(replica: SimProcess) -> None:
    asked: dict[str, Any] = {
        "model": "small",
        "messages": [{"role": "user", "content": "Count these words."}],
    }
    async with clients(replica.openai) as sdks:
        counted = (await sdks.ask("count_tokens", asked)).tokens
        message = await sdks.anthropic.messages.create(**asked, max_tokens=1)
    usage = message.usage
    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@pytest.mark.parametrize(
    ("api", "status", "kind"),
    [
        ("chat", 500, "InternalServerError"),
        ("responses", 500, "InternalServerError"),
        ("messages", 500, "api_error"),
    ],
)
def test_an_engine_that_fails_says_so_in_each_apis_form(
    replica: SimProcess, api: Api, status: int, kind: str
) -> None:
    body = body_of(api, "text", stream=True)
    headers = {"x-slipway-fault": "error"}
    answered, text = replica.call(replica.openai + PATHS[api], body, headers=headers)
    assert answered == status
    error = json.loads(text)
    assert error["error"]["type"] == kind
    assert ("type" in error) == (api == "messages")


def test_nothing_is_shown_of_a_response_before_its_first_token(replica: SimProcess) -> None:
    """Its events begin before the engine does; its headers do not."""
    body = body_of("responses", "text", stream=True, slipway_fault="die=0")
    with pytest.raises(http.client.RemoteDisconnected):
        replica.call(replica.openai + PATHS["responses"], body)
