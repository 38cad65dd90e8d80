"""The real model over two members, each on an address of its own. One load serves all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_replica import DIRECTORY, prepared_runtime
from replica_process import LIVENESS_PORT, MODEL, OPENAI_PORT, ReplicaProcess, wait_until

pytestmark = [pytest.mark.real, pytest.mark.kills]

MEMBERS, GROUP_PORT = 2, 8005
ADDRESSES = [f"127.92.8.{number}" for number in range(1, MEMBERS + 1)]
GROUP = {"members": MEMBERS, "silence_s": 30, "formation_s": 300}


def member(folder: Path, index: int, vllm: str) -> ReplicaProcess:
    """Not started. Its document is that of the whole group."""
    folder.mkdir()
    process = ReplicaProcess(
        folder, ADDRESSES[index], weights=DIRECTORY, load_timeout_s=900, group=GROUP
    )
    process.document["engine"] |= {"pipeline_parallel_size": MEMBERS, "max_model_len": 1024}
    process.environment |= {
        "SLIPWAY_RUNTIME": str(prepared_runtime()),
        "SLIPWAY_ENV_VLLM": vllm,
        "SLIPWAY_GROUP_ADDRESS": ADDRESSES[index],
        "SLIPWAY_PORT_GROUP": str(GROUP_PORT),
        "SLIPWAY_MEMBERS": str(folder.parent / "members.json"),
        "NOMAD_ALLOC_INDEX": str(index),
        "NOMAD_ALLOC_ID": f"allocation-{index}",
        "NOMAD_JOB_ID": "model-smollm2-abc123",
        "NOMAD_TASK_DIR": str(folder),
        "CXX": "/bin/false",  # hosts need no C++ compiler
    }
    return process


def registered(folder: Path) -> None:
    """As Nomad writes the members from Consul."""
    lines = [
        {
            "replica": f"model-smollm2-abc123.replica[{index}]",
            "allocation": f"allocation-{index}",
            "address": address,
            "port": GROUP_PORT,
        }
        for index, address in enumerate(ADDRESSES)
    ]
    (folder / "members.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.fixture(scope="module")
def group() -> Iterator[list[ReplicaProcess]]:
    folder = Path(tempfile.mkdtemp(prefix="slg-"))
    registered(folder)
    members = [
        member(folder / str(index), index, os.environ["SLIPWAY_ENV_VLLM"])
        for index in range(MEMBERS)
    ]
    try:
        for each in members:
            each.start()
        members[1].wait_for("member_started")
        members[0].wait_for("ready")
        yield members
    finally:
        for each in members:
            each.end()
        shutil.rmtree(folder)


def ask(
    replica: ReplicaProcess, body: dict[str, Any], path: str = "/v1/chat/completions"
) -> dict[str, Any]:
    url = f"http://{replica.address}:{OPENAI_PORT}{path}"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as reply:
        content: dict[str, Any] = json.load(reply)
        return content


def page_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=300) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_pipeline_over_two_members_answers(group: list[ReplicaProcess]) -> None:
    question = {"role": "user", "content": "What is the capital of France?"}
    answer = ask(
        group[0],
        {"model": MODEL, "messages": [question], "max_tokens": 16, "temperature": 0},
    )
    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_a_request_with_logprobs_compiles_nothing(group: list[ReplicaProcess]) -> None:
    request = {"model": MODEL, "prompt": "The sea", "max_tokens": 2, "temperature": 0}
    answer = ask(group[0], {**request, "logprobs": 1}, "/v1/completions")
    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 2


def test_while_a_member_is_silent_new_requests_are_for_another_replica(
    group: list[ReplicaProcess],
) -> None:
    question = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    live = f"http://{group[0].address}:{LIVENESS_PORT}/slipway/live"

    def says(status: int) -> Callable[[], bool]:
        return lambda: page_status(live) == status

    group[1].process.send_signal(signal.SIGSTOP)
    wait_until(says(503))
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(group[0], question)
    with refused.value as reply:
        assert (reply.code, reply.headers["x-slipway-replica-unreachable"]) == (503, "true")
    group[1].process.send_signal(signal.SIGCONT)
    wait_until(says(200))
    assert ask(group[0], question)["choices"]


def test_the_end_of_one_member_ends_the_other(group: list[ReplicaProcess]) -> None:
    group[1].process.kill()
    assert group[0].process.wait(300) == 1
    errors = [each for each in group[0].events() if each["event"] == "error"]
    assert any("rank 1 is gone" in str(each) for each in errors)
    wait_until(group[0].is_gone)
