"""An agent framework against the simulated engine: tools, structured output and streams."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from agent_models import APIS, SETTINGS, Verdict, model_of
from api_requests import Api
from engine_sim_process import SimProcess
from pydantic_ai import Agent, NativeOutput


def agent_of(api: Api, replica: SimProcess, asked: list[str]) -> Agent[None, str]:
    """One with a tool, which notes for which city it was asked."""
    agent = Agent(
        model_of(api, replica.openai, "small"), model_settings=SETTINGS, instructions="Be short."
    )

    @agent.tool_plain
    def get_weather(city: Literal["Paris", "Rome"]) -> str:
        """The weather of a city."""
        asked.append(city)
        return "18 degrees"

    return agent


@pytest.mark.parametrize("api", APIS)
async def test_an_agent_calls_its_tool_and_then_answers(replica: SimProcess, api: Api) -> None:
    asked: list[str] = []
    agent = agent_of(api, replica, asked)
    first = await agent.run("What is the weather? Use get_weather.")
    assert asked == ["Paris"]
    assert first.output.startswith("simulated: ")
    assert first.usage.requests == 2
    second = await agent.run("And now?", message_history=first.all_messages())
    assert asked == ["Paris"]
    assert second.output.startswith("simulated: ")


@pytest.mark.parametrize("api", APIS)
async def test_an_agent_streams_what_it_says_after_its_tool(replica: SimProcess, api: Api) -> None:
    asked: list[str] = []
    async with agent_of(api, replica, asked).run_stream("Use get_weather.") as stream:
        texts = [text async for text in stream.stream_text(delta=True, debounce_by=None)]
    assert asked == ["Paris"]
    assert len(texts) > 1
    assert "".join(texts).split()[-1] in ("w63", "w127")


@pytest.mark.parametrize("api", APIS)
async def test_an_agents_answer_is_an_object_of_its_type(replica: SimProcess, api: Api) -> None:
    model = model_of(api, replica.openai, "small")
    by_a_tool = await Agent(model, output_type=Verdict, model_settings=SETTINGS).run("Judge it.")
    assert isinstance(by_a_tool.output, Verdict)
    if api != "messages":  # the framework knows which of Anthropic's own models can
        native = Agent(model, output_type=NativeOutput(Verdict), model_settings=SETTINGS)
        assert (await native.run("Judge it.")).output == by_a_tool.output


async def test_many_agents_work_at_once(replica: SimProcess) -> None:
    asked: list[str] = []
    agents = [agent_of(api, replica, asked) for api in APIS for _ in range(8)]
    answers = await asyncio.gather(*(agent.run("Use get_weather.") for agent in agents))
    assert asked == ["Paris"] * 24
    assert all(answer.usage.requests == 2 for answer in answers)
