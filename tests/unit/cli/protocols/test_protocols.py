"""Both protocols, against small servers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from typer.testing import CliRunner

from cli.app import app
from cli.applied import Applied, from_document
from cli.protocols import openai_http, triton_grpc
from cli.protocols.answer import Answer, NoAnswerError, Piece, collect
from cli.protocols.probe import QUESTION, Probe, ask
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document
from tests.waiting import HANG_S

CHAT = "POST /v1/chat/completions"
GRPC_ADDRESS = f"{NETWORK}.3:8001"


def events(*documents: dict[str, Any] | str) -> bytes:
    lines = [d if isinstance(d, str) else f"data: {json.dumps(d)}" for d in documents]
    return "".join(f"{line}\n\n" for line in lines).encode()


def delta(text: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


ANSWER = events(
    {"choices": [{"index": 0, "delta": {"role": "assistant"}}]},
    ": a comment",
    delta("The capital"),
    delta(" is"),
    delta(" Paris."),
    delta(None),
    {"choices": [], "usage": {"completion_tokens": 7}},
    "data: [DONE]",
)


async def over_http(address: str, **options: Any) -> Answer:
    options = {"max_tokens": 8, **options}
    return await collect(openai_http.stream_chat(address, "smollm2", "hello", **options))


async def test_an_answer_over_sse_is_its_pieces_and_the_engines_count(serve: Serve) -> None:
    server = serve({CHAT: (200, ANSWER)})
    shown: list[str] = []
    pieces = openai_http.stream_chat(server.address, "smollm2", "hello", max_tokens=8)
    answer = await collect(pieces, shown.append)
    assert answer.text == "The capital is Paris."
    assert shown == ["The capital", " is", " Paris."]
    assert answer.tokens == 7
    assert 0 < answer.ttft_s <= answer.total_s


def reasoning(**fields: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


@pytest.mark.parametrize(
    "pieces",
    [
        [reasoning(reasoning="Let me"), reasoning(reasoning=" see", content=None)],
        [reasoning(reasoning_content="Let me", content=""), reasoning(reasoning_content=" see")],
        [reasoning(reasoning="Let me see", reasoning_content="Let me see")],
    ],
)
async def test_reasoning_is_text_that_came(serve: Serve, pieces: list[dict[str, Any]]) -> None:
    """The two tokens that `up` asks for may consist of reasoning only."""
    thinking = serve({CHAT: (200, events(*pieces, "data: [DONE]"))})
    assert (await over_http(thinking.address)).text == "Let me see"
    last = reasoning(reasoning=".\n", content="Paris")
    whole = serve({CHAT: (200, events(*pieces, last, delta("."), "data: [DONE]"))})
    assert (await over_http(whole.address)).text == "Let me see.\nParis."


async def test_the_request_carries_instructions_only_where_there_are_some(serve: Serve) -> None:
    server = serve({CHAT: (200, ANSWER)})
    await over_http(server.address)
    await over_http(server.address, system="be brief", max_tokens=3)
    plain, instructed = (json.loads(body) for body in server.bodies)
    assert plain["messages"] == [{"role": "user", "content": "hello"}]
    assert instructed["messages"][0] == {"role": "system", "content": "be brief"}
    assert instructed["max_tokens"] == 3
    assert instructed["stream"] is True


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            404,
            b'{"error": {"message": "no model x", "code": "model_not_found"}}',
            "404: no model x",
        ),
        (503, b"no healthy upstream", "503: no healthy upstream"),
        (400, b'["odd"]', "400: ['odd']"),
        (200, events(delta("The"), {"error": {"message": "out of memory"}}), "out of memory"),
        (200, events({"error": "broken"}), "broken"),
        (200, events(delta("The capital")), "without [DONE]"),
        (200, events("data: [DONE]"), "without any text"),
        (200, events("data: {not json"), "an invalid event"),
    ],
)
async def test_an_error_instead_of_an_answer_says_why(
    serve: Serve, status: int, body: bytes, said: str
) -> None:
    server = serve({CHAT: (status, body)})
    with pytest.raises(NoAnswerError) as raised:
        await over_http(server.address)
    assert said in raised.value.message
    assert raised.value.exit_code == 1


async def test_a_gateway_that_does_not_listen_is_named() -> None:
    with pytest.raises(NoAnswerError, match=r"127\.96\.\d+\.9:8080") as refused:
        await over_http(f"http://{NETWORK}.9:8080")
    assert "slipway start" not in refused.value.fix


async def test_a_proxy_of_the_users_is_not_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://{NETWORK}.9:3128")
    server = serve({CHAT: (200, ANSWER)})
    assert (await over_http(server.address)).tokens == 7


async def test_times_are_counted_from_the_request_to_the_first_and_the_last_text() -> None:
    clock = iter([100.0, 100.5, 100.75, 101.5])  # the start, then one reading per text

    async def pieces() -> AsyncIterator[Piece]:
        yield Piece()  # the role comes before any text and does not count
        for text in ("a", "b", "c"):
            yield Piece(text=text)
        yield Piece(tokens=5)

    answer = await collect(pieces(), now_s=lambda: next(clock))
    assert answer.ttft_s == 0.5
    assert answer.total_s == 1.5
    assert answer.tokens_per_s == 4.0  # four more tokens in one second


@pytest.mark.parametrize(("tokens", "total_s"), [(1, 0.5), (3, 0.5)])
def test_one_instant_has_no_rate(tokens: int, total_s: float) -> None:
    assert Answer(text="x", tokens=tokens, pieces=1, ttft_s=0.5, total_s=total_s).tokens_per_s == 0


class Triton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """ModelStreamInfer of a decoupled model: pieces, then an empty final response."""

    def __init__(self, pieces: list[str], error: str = "") -> None:
        self.requests: list[Any] = []
        self._pieces, self._error = pieces, error

    async def ModelStreamInfer(  # noqa: N802  (a name of the protocol)
        self, requests: AsyncIterator[Any], _context: Any
    ) -> Any:
        async for request in requests:
            self.requests.append(request)
            for piece in self._pieces:
                yield self._response(request, piece.encode())
            if self._error:
                yield service_pb2.ModelStreamInferResponse(error_message=self._error)
                return
            yield self._response(request, None)

    @staticmethod
    def _response(request: Any, text: bytes | None) -> Any:
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        response.parameters["triton_final_response"].bool_param = text is None
        if text is not None:
            output = response.outputs.add(name="text_output", datatype="BYTES")
            output.shape.append(1)
            response.raw_output_contents.append(len(text).to_bytes(4, "little") + text)
        return service_pb2.ModelStreamInferResponse(infer_response=response)


async def with_triton(servicer: Triton, use: Callable[[], Any]) -> Any:
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    assert server.add_insecure_port(GRPC_ADDRESS)
    await server.start()
    try:
        return await use()
    finally:
        await server.stop(grace=0)


async def over_grpc(**options: Any) -> Answer:
    pieces = triton_grpc.stream_chat(GRPC_ADDRESS, "smollm2", "hello", max_tokens=8, **options)
    return await collect(pieces)


async def test_an_answer_over_grpc_is_its_pieces() -> None:
    servicer = Triton(["Par", "is."])
    answer = await with_triton(servicer, over_grpc)
    assert answer.text == "Paris."
    assert answer.tokens == 2
    (request,) = servicer.requests
    assert request.model_name == "smollm2"
    assert [(i.name, i.datatype) for i in request.inputs] == [
        ("text_input", "BYTES"),
        ("stream", "BOOL"),
        ("sampling_parameters", "BYTES"),
        ("exclude_input_in_output", "BOOL"),
    ]
    assert b"<|im_start|>user\nhello<|im_end|>" in request.raw_input_contents[0]
    assert b'"max_tokens": 8' in request.raw_input_contents[2]


async def test_an_error_in_the_stream_is_reported() -> None:
    with pytest.raises(NoAnswerError, match="Stub process is not healthy"):
        await with_triton(Triton(["Par"], error="Stub process is not healthy"), over_grpc)


async def test_a_triton_server_that_does_not_listen_is_named() -> None:
    with pytest.raises(NoAnswerError, match=r"127\.96\.\d+\.3:8001"):
        await over_grpc(timeout_s=HANG_S)


def test_chatml_has_instructions_only_where_there_are_some() -> None:
    assert triton_grpc.chat_text("hi", None) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert triton_grpc.chat_text("hi", "be brief").startswith(
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n"
    )


def gateway_at(http: str, grpc_address: str) -> Applied:
    host, _, port = http.removeprefix("http://").partition(":")
    applied = from_document(plan_document(gateway=f"{host}:{port}"))
    object.__setattr__(applied, "gateway_grpc", grpc_address)
    return applied


async def test_a_probe_asks_the_same_question_over_both_protocols(serve: Serve) -> None:
    server, servicer = serve({CHAT: (200, ANSWER)}), Triton(["Paris"])
    applied = gateway_at(server.address, GRPC_ADDRESS)
    model = applied.model("small")
    assert model is not None
    probe = await with_triton(
        servicer, lambda: asyncio.to_thread(ask, applied, model, max_tokens=8)
    )
    assert probe.ready
    assert probe.openai.text == "The capital is Paris."
    assert probe.grpc.text == "Paris"
    assert json.loads(server.bodies[0])["messages"][0]["content"] == QUESTION
    assert QUESTION.encode() in servicer.requests[0].raw_input_contents[0]


async def probed(serve: Serve, protocol: str, pieces: list[str], tokens: int) -> Probe:
    """The probe of a model that speaks one protocol and answers in these pieces."""
    usage = {"choices": [], "usage": {"completion_tokens": tokens}}
    server = serve({CHAT: (200, events(*map(delta, pieces), usage, "data: [DONE]"))})
    applied = gateway_at(server.address, GRPC_ADDRESS)
    model = dataclasses.replace(applied.models[0], protocols=(protocol,))
    return await with_triton(
        Triton(pieces), lambda: asyncio.to_thread(ask, applied, model, max_tokens=8)
    )


# What the shipped models answer with the 8 tokens that a probe asks for.
REAL = "The capital of France is Paris."
SIMULATED = "simulated: 2d711642 w3 w4 w5 w6 w7 "


@pytest.mark.parametrize(("protocol", "name"), [("http", "OpenAI"), ("grpc", "Triton")])
@pytest.mark.parametrize("text", [REAL, SIMULATED])
async def test_an_answer_that_was_held_back_until_its_end_is_not_streamed(
    serve: Serve, protocol: str, name: str, text: str
) -> None:
    probe = await probed(serve, protocol, [text], tokens=7)
    assert probe.error == (
        f'{name}: the whole answer came in one piece ("{text.strip()}"): it is not streamed'
    )
    first, _, rest = text.partition(" ")
    assert (await probed(serve, protocol, [f"{first} ", rest], tokens=7)).ready


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_few_tokens_in_one_piece_are_no_sign_of_an_unstreamed_answer(
    serve: Serve, protocol: str
) -> None:
    assert (await probed(serve, protocol, ["It is Paris."], tokens=5)).ready


async def test_a_language_without_spaces_is_judged_by_its_tokens(serve: Serve) -> None:
    probe = await probed(serve, "http", ["法国的首都是巴黎。"], tokens=8)
    assert "it is not streamed" in probe.error


def test_a_probe_asks_a_model_only_over_what_it_speaks(serve: Serve) -> None:
    """Nothing listens for Triton's protocol there."""
    applied = gateway_at(serve({CHAT: (200, ANSWER)}).address, f"{NETWORK}.9:8080")
    model = dataclasses.replace(applied.models[0], protocols=("http",))
    probe = ask(applied, model, max_tokens=8)
    assert probe.ready
    assert probe.openai is not None
    assert probe.grpc is None


def test_a_probe_says_which_protocol_did_not_answer(serve: Serve) -> None:
    applied = gateway_at(serve({CHAT: (200, ANSWER)}).address, f"{NETWORK}.9:8080")
    probe = ask(applied, applied.models[0], max_tokens=8)
    assert not probe.ready
    assert probe.openai is not None
    assert probe.error.startswith("Triton: ")
    applied = gateway_at(serve({}).address, f"{NETWORK}.9:8080")
    assert ask(applied, applied.models[0], max_tokens=8).error.startswith("OpenAI: HTTP 404")


def test_chat_streams_the_answer_to_stdout_and_its_times_to_stderr(
    runner: CliRunner, checkout: Any, serve: Serve
) -> None:
    host, _, port = serve({CHAT: (200, ANSWER)}).address.removeprefix("http://").partition(":")
    put_plan(checkout, plan_document(gateway=f"{host}:{port}"))
    result = runner.invoke(app, ["chat", "small", "hello"])
    assert result.exit_code == 0
    assert result.stdout == "The capital is Paris.\n"
    assert "7 tokens" in result.stderr
    assert "TTFT" in result.stderr


@pytest.mark.parametrize("words", [["caf\udce9"], ["hello", "--system", "\udcff"]])
def test_chat_with_what_is_not_utf_8_says_how_to_convert_it(
    runner: CliRunner, checkout: Any, words: list[str]
) -> None:
    put_plan(checkout, plan_document())
    result = runner.invoke(app, ["chat", "smollm2", *words])
    assert result.exit_code == 2
    assert "is not UTF-8 text" in result.stderr
    assert "iconv" in result.stderr


def test_chat_over_a_protocol_that_the_model_does_not_speak_says_how_to_ask(
    runner: CliRunner, checkout: Any
) -> None:
    document = plan_document()
    document["models"][1]["protocols"] = ["http"]
    put_plan(checkout, document)
    result = runner.invoke(app, ["chat", "smollm2", "hello", "--grpc"])
    assert result.exit_code == 2
    assert "does not speak Triton's protocol" in result.stderr
    assert "without --grpc" in result.stderr


def test_chat_with_an_unknown_model_names_the_known_ones(runner: CliRunner, checkout: Any) -> None:
    put_plan(checkout, plan_document())
    result = runner.invoke(app, ["chat", "smolm2", "hello"])
    assert result.exit_code == 2
    assert 'did you mean "smollm2"?' in result.stderr
    result = runner.invoke(app, ["chat", "gpt", "hello"])
    assert "use one of: sim-a, small, smollm2" in result.stderr


def put_plan(checkout: Any, document: dict[str, Any]) -> None:
    run = checkout / ".slipway" / "dev"
    run.mkdir(parents=True, exist_ok=True)
    (run / "plan.json").write_text(json.dumps(document))
