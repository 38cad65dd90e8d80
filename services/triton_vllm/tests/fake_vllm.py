"""Stands in for vLLM's API server, because loading the real engine would take a minute per test.

It has the structure of vLLM with workers: an API server, an engine and a worker in processes of
their own, a resource tracker, segments in shared memory, a named semaphore, and an engine that
outlives its server. A prompt is answered with its own words, one per token. Where a prompt
says `hold`, a stream stops after its first token, and a whole answer does not begin, until it is
released.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import time
from typing import Any

from aiohttp import web

TOKEN_INTERVAL_S = 0.02


def worker(_lock: Any, segment: str) -> None:
    attached = multiprocessing.shared_memory.SharedMemory(segment)
    while attached.buf is not None:
        time.sleep(3600)


def engine(started: Any) -> None:
    context = multiprocessing.get_context("spawn")
    lock = context.Lock()
    segment = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    child = context.Process(target=worker, args=(lock, segment.name))
    child.start()
    started.set()
    child.join()


class Progress:
    """Steps and requests outstanding, as engine_progress.py tells them."""

    def __init__(self) -> None:
        path = os.environ.get("SLIPWAY_PROGRESS")
        self.numbers = memoryview(bytearray(16)).cast("Q")
        if path is not None:
            shared = os.open(path, os.O_RDWR)
            self.numbers = memoryview(mmap.mmap(shared, 0)).cast("Q")

    def step_ended(self) -> None:
        self.numbers[0] += 1

    def outstanding_are(self, requests: int) -> None:
        self.numbers[1] = requests


class Api:
    """The routes that the launcher and the Triton model use."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.running = 0
        self.progress = Progress()
        self.held = asyncio.Semaphore(0)

    def application(self) -> web.Application:
        application = web.Application()
        application.add_routes(
            [
                web.get("/health", self.health),
                web.get("/metrics", self.metrics),
                web.post("/v1/completions", self.completions),
                web.post("/detokenize", self.detokenize),
                web.post("/release", self.release),
            ]
        )
        return application

    async def health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            text=f'vllm:num_requests_running{{engine="0"}} {self.running:.1f}\n'
            'vllm:num_requests_waiting{engine="0"} 0.0\n'
            'vllm:num_requests_waiting_by_reason{engine="0"} 0.0\n'
        )

    async def detokenize(self, request: web.Request) -> web.Response:
        (token,) = (await request.json())["tokens"]
        return web.json_response({"prompt": f"<{token}>"})

    async def release(self, _request: web.Request) -> web.Response:
        """One stream that is held goes on."""
        self.held.release()
        return web.Response()

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["model"] not in self.names:
            return refusal(404, f"The model `{body['model']}` does not exist.")
        if body.get("max_tokens", 16) < 1:
            return refusal(400, f"max_tokens must be at least 1, got {body['max_tokens']}")
        self._count(1)
        try:
            if not body["stream"] if "stream" in body else True:
                return await self.answer(body)
            return await self.stream(request, body)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self.running += change
        self.progress.outstanding_are(self.running)

    async def answer(self, body: dict[str, Any]) -> web.Response:
        if "hold" in body["prompt"]:
            await self.held.acquire()
        tokens = answer_tokens(body)
        for _ in tokens:
            await asyncio.sleep(TOKEN_INTERVAL_S)
            self.progress.step_ended()
        indexes = range(body.get("n", 1))
        choices = [choice(body, i, tokens, 0, finished=True) for i in indexes]
        return web.json_response({"choices": choices, "usage": usage(body, len(tokens))})

    async def stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        tokens = answer_tokens(body)
        for position, token in enumerate(tokens):
            if position == 1 and "hold" in body["prompt"]:
                await self.held.acquire()
            if position == 2 and "die mid-stream" in body["prompt"]:
                os._exit(1)
            if position == 2 and "break off mid-stream" in body["prompt"]:
                return reply
            if position == 2 and "fail mid-stream" in body["prompt"]:
                await send(reply, {"error": {"message": "out of blocks", "code": 500}})
                break
            for index in range(body.get("n", 1)):
                last = position == len(tokens) - 1
                part = choice(body, index, [token], position, finished=last)
                await send(reply, {"choices": [part], "usage": usage(body, position + 1)})
            await asyncio.sleep(TOKEN_INTERVAL_S)
            self.progress.step_ended()
        else:
            await send(reply, {"choices": [], "usage": usage(body, len(tokens))})
        await reply.write(b"data: [DONE]\n\n")
        return reply


def answer_tokens(body: dict[str, Any]) -> list[str]:
    words = body["prompt"].split()
    return [f" {words[i % len(words)]}" for i in range(body.get("max_tokens", 16))]


def choice(
    body: dict[str, Any], index: int, tokens: list[str], position: int, *, finished: bool
) -> dict[str, Any]:
    ids = list(range(position, position + len(tokens)))
    result: dict[str, Any] = {
        "index": index,
        "text": "".join(tokens),
        "finish_reason": "length" if finished else None,
        "logprobs": None,
    }
    if body.get("return_token_ids"):
        result["token_ids"] = ids
    if "logprobs" in body:
        names = [f"token_id:{i}" for i in ids]
        result["logprobs"] = {
            "tokens": names,
            "token_logprobs": [-0.5 for _ in ids],
            # a better one that was not chosen, and the chosen one outside the best
            "top_logprobs": [{"token_id:900": -0.25, name: -0.5} for name in names],
        }
    return result


def usage(body: dict[str, Any], tokens: int) -> dict[str, int]:
    return {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": tokens}


def refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


async def send(reply: web.StreamResponse, chunk: dict[str, Any]) -> None:
    await reply.write(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", nargs="+", required=True)
    arguments, _others = parser.parse_known_args()
    while not os.path.exists(os.environ.get("FAKE_VLLM_WAITS_FOR", "/")):  # noqa: PTH110
        time.sleep(TOKEN_INTERVAL_S)
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    process = context.Process(target=engine, args=(started,))
    process.start()
    if not started.wait(300):
        raise SystemExit("the engine did not start")
    api = Api(arguments.served_model_name)
    # A client that leaves cancels its handler, as it aborts a request in vLLM.
    web.run_app(
        api.application(),
        host=arguments.host,
        port=arguments.port,
        handler_cancellation=True,
        shutdown_timeout=0.1,
    )
    for child in multiprocessing.active_children():
        child.terminate()  # the worker is its own child's; the resource tracker cleans the rest
        child.join()


if __name__ == "__main__":
    main()
