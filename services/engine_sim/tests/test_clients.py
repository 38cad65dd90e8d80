"""Chat Completions, Responses and Messages, by the official SDKs."""

from __future__ import annotations

from api_answers import check_right_requests, check_wrong_requests
from engine_sim_process import SimProcess


async def test_the_sdks_types_read_all_that_the_three_apis_answer(replica: SimProcess) -> None:
    assert await check_right_requests(replica.openai, "small") >= 40


async def test_wrong_requests_get_the_statuses_and_errors_of_their_apis(
    replica: SimProcess,
) -> None:
    assert await check_wrong_requests(replica.openai, "small") >= 15
