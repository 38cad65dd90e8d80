"""An engine whose watcher has it turn new requests away."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from engine_sim_process import SimProcess
from hang import HANG_S
from program.liveness.progress import VARIABLE, Progress
from simulator.text import answer
from test_lifecycle import start_stream, text_of
from test_triton_protocols import answers, request, text

BODY = {"prompt": "x", "max_tokens": 5}


@pytest.fixture
def progress() -> Progress:
    return Progress.create()


@pytest.fixture
def watched(progress: Progress) -> Iterator[SimProcess]:
    with SimProcess(variables={VARIABLE: progress.path}, engine_args={"time_scale": 0}) as engine:
        yield engine


def test_new_requests_are_for_another_replica(watched: SimProcess, progress: Progress) -> None:
    progress.turn_away(True)
    status, reason = watched.call(watched.openai + "/v1/completions", BODY)
    assert (status, "may be lost" in reason) == (503, True)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(watched.openai + "/v1/chat/completions", b"{}", timeout=HANG_S)
    with refused.value as reply:
        assert reply.headers["x-slipway-replica-unreachable"] == "true"
    progress.turn_away(False)
    assert watched.call(watched.openai + "/v1/completions", BODY)[0] == 200


def test_a_stream_that_has_begun_is_finished(watched: SimProcess, progress: Progress) -> None:
    watched.set_faults(slow=10)
    response = start_stream(watched, 100).getresponse()
    progress.turn_away(True)
    watched.clear_faults()
    assert text_of(response.read()) == answer("x").text(0, 100)


def test_pages_are_answered(watched: SimProcess, progress: Progress) -> None:
    progress.turn_away(True)
    assert watched.call(watched.openai + "/health")[0] == 200
    assert watched.call(watched.openai + "/v1/models")[0] == 200


async def test_streams_over_grpc_are_taken_because_no_gateway_can_begin_them_again(
    watched: SimProcess, progress: Progress
) -> None:
    progress.turn_away(True)
    async with triton.InferenceServerClient(watched.grpc) as client:
        wanted = request("one", stream=True, sampling={"max_tokens": 40})
        pairs = await answers(client, wanted)
    assert text([result for result, _ in pairs]) == answer("one").text(0, 40)
