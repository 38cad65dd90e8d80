"""The OpenAI API, by the official client."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import openai
import pytest
from engine_sim_process import SimProcess
from hang import HANG_S
from openai.types.chat import ChatCompletionMessageParam
from prometheus_client.parser import text_string_to_metric_families
from simulator.text import answer, tokenise


@pytest.fixture
async def client(replica: SimProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=replica.openai + "/v1", api_key="none", max_retries=0, timeout=HANG_S
    ) as client:
        yield client


def ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def chat_answer(text: str, tokens: int) -> str:
    return answer(f"<|user|>\n{text}\n<|assistant|>\n").text(0, tokens)


async def test_a_limit_of_null_means_no_limit(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model="llama",
        messages=ask("hello"),
        max_tokens=5,
        extra_body={"max_completion_tokens": None},
    )
    assert reply.choices[0].finish_reason == "length"


async def test_a_chat_is_answered_with_usage(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(model="llama", messages=ask("hello"), max_tokens=5)
    assert reply.choices[0].message.content == chat_answer("hello", 5)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 5
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 5


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions/render", {"messages": ask("hello")}),
        ("/v1/completions/render", {"prompt": "<|user|>\nhello\n<|assistant|>\n"}),
    ],
)
def test_a_prompt_is_rendered_to_its_tokens(
    replica: SimProcess, path: str, body: dict[str, object]
) -> None:
    before = replica.samples(replica.openai)
    status, text = replica.call(replica.openai + path, {"model": "llama", **body})
    assert status == 200
    answered = json.loads(text)
    rendered = answered if "chat" in path else answered[0]
    expected = tokenise("<|user|>\nhello\n<|assistant|>\n")
    assert rendered["token_ids"] == [token & 0x7FFF_FFFF for token in expected]
    computed = "vllm:prompt_tokens_total"
    assert replica.samples(replica.openai)[computed] == before[computed]


async def test_an_answer_says_that_it_is_simulated(
    client: openai.AsyncOpenAI,
) -> None:
    reply = await client.chat.completions.create(
        model="small", messages=ask("What is the capital of France?")
    )
    assert (reply.choices[0].message.content or "").startswith("simulated: ")
    assert reply.choices[0].finish_reason == "stop"


async def test_a_stream_is_complete_in_order_and_ends_with_usage(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.chat.completions.create(
        model="llama",
        messages=ask("stream"),
        max_tokens=200,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(texts) == chat_answer("stream", 200)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 200
    assert not any(chunk.usage for chunk in chunks[:-1])


@pytest.mark.parametrize("prompt", ["hello", [15, 16, 17]])
async def test_a_completion_takes_text_or_tokens(
    client: openai.AsyncOpenAI, prompt: str | list[int]
) -> None:
    reply = await client.completions.create(model="llama", prompt=prompt)
    source = prompt if isinstance(prompt, str) else "15 16 17"
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    assert reply.choices[0].text.split() == [
        "simulated:",
        digest,
        *(f"w{n}" for n in range(3, 16)),
    ]


async def test_a_stop_string_ends_the_answer_and_is_not_part_of_it(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.completions.create(
        model="llama", prompt="x", max_tokens=50, stop=["w4 w5"], stream=True
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks).endswith(" w3 ")
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_a_conversation_sent_back_is_found_in_the_prefix_cache(
    client: openai.AsyncOpenAI,
) -> None:
    messages = ask("a conversation " * 30)
    first = await client.chat.completions.create(model="llama", messages=messages, max_tokens=100)
    messages.append({"role": "assistant", "content": first.choices[0].message.content})
    messages.append({"role": "user", "content": "go on"})
    second = await client.chat.completions.create(model="llama", messages=messages, max_tokens=1)
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    cached = second.usage.prompt_tokens_details.cached_tokens or 0
    assert first.usage.total_tokens - 32 < cached < second.usage.prompt_tokens


async def test_unsupported_and_wrong_requests_get_a_clear_error(
    client: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
        await client.chat.completions.create(model="other", messages=ask("x"))
    with pytest.raises(openai.BadRequestError, match="`tools` must not be an empty array"):
        await client.chat.completions.create(
            model="llama", messages=ask("x"), tools=[], tool_choice="auto"
        )
    with pytest.raises(openai.BadRequestError, match="n must be 1"):
        await client.chat.completions.create(model="llama", messages=ask("x"), n=2)
    with pytest.raises(openai.BadRequestError, match="maximum context length is 4096") as caught:
        await client.chat.completions.create(model="llama", messages=ask("x"), max_tokens=5000)
    assert caught.value.type == "BadRequestError"
    assert caught.value.param == "max_tokens"


def test_what_is_not_json_or_has_no_route_gets_an_openai_error(replica: SimProcess) -> None:
    status, text = replica.call(replica.openai + "/v1/completions", [1])
    assert (status, '"error"' in text) == (400, True)
    status, text = replica.call(replica.openai + "/v1/embeddings", {})
    assert (status, '"NotFoundError"' in text) == (404, True)


async def test_models_lists_the_name_and_its_aliases(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["llama", "small"]


async def test_many_streams_at_once_are_all_complete(client: openai.AsyncOpenAI) -> None:
    async def one(number: int) -> str:
        stream = await client.completions.create(
            model="llama", prompt=f"stream {number}", max_tokens=40, stream=True
        )
        return "".join([chunk.choices[0].text async for chunk in stream])

    texts = await asyncio.gather(*map(one, range(64)))
    assert list(texts) == [answer(f"stream {number}").text(0, 40) for number in range(64)]


async def test_metrics_count_what_was_served(
    client: openai.AsyncOpenAI, replica: SimProcess
) -> None:
    before = replica.samples(replica.openai)
    await client.completions.create(model="llama", prompt="one two three", max_tokens=7)
    after = replica.samples(replica.openai)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown["vllm:prompt_tokens_total"] == 3
    assert grown["vllm:generation_tokens_total"] == 7
    assert grown["vllm:request_success_total{length}"] == 1
    assert grown["vllm:prefix_cache_queries_total"] == 3
    assert grown["vllm:time_to_first_token_seconds_count"] == 1
    assert grown["vllm:time_per_output_token_seconds_count"] == 6
    assert grown["vllm:inter_token_latency_seconds_count"] == 6
    assert grown["vllm:e2e_request_latency_seconds_count"] == 1
    for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert after[f"vllm:{gauge}"] == 0


def test_the_size_of_the_kv_cache_is_told_in_labels(replica: SimProcess) -> None:
    """As vLLM does, which has more labels."""
    _, text = replica.call(replica.openai + "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (sample,) = families["vllm:cache_config_info"].samples
    assert sample.value == 1
    assert sample.labels == {
        "block_size": "16",
        "num_gpu_blocks": "4096",
        "kv_cache_size_tokens": "65536",
        "kv_cache_max_concurrency": "16.0",
        "engine": "0",
    }
