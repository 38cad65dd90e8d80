"""The whole platform, as a user meets it. Tests run in the order they are written."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest

from tests.live.models import backends, job_of_each_model, serving
from tests.live.streaming import Load, grpc_stream, openai_stream

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

QUESTION = "What is the capital of France?"


def test_up_ends_with_an_answer_from_the_model(platform) -> None:
    report = platform.first_up
    assert "Paris" in report["answer"]
    assert {name: model["ready"] for name, model in report["models"].items()} == {
        "smollm2": True,
        "sim-a": True,
        "sim-b": True,
        "sim-tight": True,
    }


@pytest.mark.parametrize("name", ["smollm2", "small"])
async def test_the_real_model_streams_paris_token_by_token_over_sse(platform, name) -> None:
    answer = await openai_stream(platform.http, name, QUESTION)
    assert answer.error is None
    assert "Paris" in answer.text
    assert len(answer.arrived_s) >= 5
    assert answer.arrived_s[-1] - answer.arrived_s[0] > 0.1, "all tokens arrived at once"


@pytest.mark.parametrize("name", ["smollm2", "small"])
async def test_the_real_model_streams_paris_token_by_token_over_grpc(platform, name) -> None:
    answer = await grpc_stream(platform.grpc, name, QUESTION)
    assert answer.error is None
    assert "Paris" in answer.text
    assert len(answer.arrived_s) >= 5
    assert answer.arrived_s[-1] - answer.arrived_s[0] > 0.1, "all tokens arrived at once"


def test_an_openai_client_lists_the_models_and_chats(platform) -> None:
    client = openai.OpenAI(base_url=f"{platform.http}/v1", api_key="unused")
    assert {"smollm2", "small", "sim-a", "sim-b"} <= {model.id for model in client.models.list()}
    reply = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=16,
        temperature=0,
    )
    assert "Paris" in (reply.choices[0].message.content or "")


async def test_an_unknown_model_is_refused_with_an_error_that_names_it(platform) -> None:
    answer = await openai_stream(platform.http, "no-such-model", QUESTION)
    assert answer.error is not None
    assert answer.error.startswith("HTTP 404")
    assert "no-such-model" in answer.error or "model_not_found" in answer.error
    answer = await grpc_stream(platform.grpc, "no-such-model", QUESTION)
    assert answer.error is not None


@pytest.mark.parametrize(
    "path",
    ["4646/v1/jobs", "4646/v1/nodes", "8500/v1/kv/slipway/routes/smollm2", "8500/v1/acl/tokens"],
)
def test_nomad_and_consul_refuse_a_request_without_a_token(platform, path) -> None:
    response = httpx.get(f"http://127.78.0.1:{path}")
    assert response.status_code in (401, 403, 404), response.text
    assert "model-" not in response.text


def test_a_preview_right_after_up_has_no_changes(platform) -> None:
    platform.slipway("preview", "--expect-no-changes")


def test_an_up_without_changes_is_quick_and_changes_nothing(platform) -> None:
    report = platform.up()
    assert report["seconds"] <= 20, report["phases"]  # the bar of 10 s is measured by bench/


def test_status_shows_every_replica_and_endpoint(platform) -> None:
    status = platform.status()
    assert {node["name"] for node in status["nodes"]} >= {"cpu-0", "cpu-1", "edge-0"}
    text = json.dumps(status)
    for job in ("model-smollm2-", "model-sim-a-", "envoy", "xds", "prometheus", "nomad-autoscaler"):
        assert job in text


def test_prometheus_scrapes_every_part(platform) -> None:
    query = "http://127.78.0.16:9090/api/v1/targets?state=active"
    address = platform.http.rsplit(":", 1)[0]
    query = f"{address}:9090/api/v1/targets?state=active"
    targets = httpx.get(query).json()["data"]["activeTargets"]
    down = [f"{t['scrapeUrl']}: {t['lastError']}" for t in targets if t["health"] != "up"]
    assert down == []
    services = {t["labels"].get("service", t["labels"]["job"]) for t in targets}
    assert {
        "consul",
        "nomad",
        "envoy-admin",
        "xds-http",
        "prometheus",
        "nomad-autoscaler",
    } <= services
    assert any(name.startswith("model-smollm2-") for name in services)


def test_a_comparison_shows_what_the_models_did(platform) -> None:
    said = platform.slipway("plan", "--compare", "--json", "--window", "900").stdout
    measured = json.loads(said)["measured"]["smollm2"]
    assert measured["replicas"] == 1
    assert measured["requests_per_s"] > 0
    assert measured["ttft_ms"] > 0
    assert measured["tpot_ms"] > 0
    assert 0 <= measured["kv_cache_usage"] <= 1


def _change_under_load(platform, edit) -> tuple[Load, str]:
    """Apply `edit` with streams running on both simulated models; returns the load and the log."""

    async def run() -> tuple[Load, str]:
        async with Load(platform.http, platform.grpc, ["sim-a", "sim-b"]) as load:
            await asyncio.sleep(2)
            edit()
            result = await asyncio.to_thread(platform.slipway, "up", timeout_s=300)
            await asyncio.sleep(8)  # the old job's shutdown delay and drain are part of the change
        return load, result.stdout + result.stderr

    return asyncio.run(run())


def test_a_changed_flag_loses_no_request_and_touches_only_its_model(platform) -> None:
    load, log = _change_under_load(platform, lambda: platform.edit_model("sim-a", max_num_seqs=16))
    assert load.failures == []
    assert all(len(answers) >= 5 for answers in load.answers.values())
    assert "model-sim-b" not in log
    assert "model-smollm2" not in log


def test_a_preview_after_a_scale_action_has_no_changes(platform) -> None:
    status = platform.status()
    job = next(j["id"] for j in status["jobs"] if j["id"].startswith("model-sim-a-"))
    httpx.put(
        f"http://127.78.0.1:4646/v1/job/{job}/scale",
        headers={"X-Nomad-Token": platform.token("nomad")},
        json={"Count": 3, "Target": {"Group": "replica"}, "Message": "test"},
    ).raise_for_status()
    platform.slipway("preview", "--expect-no-changes")


def test_a_spec_that_cannot_start_leaves_the_old_one_serving_and_can_be_taken_back(
    platform,
) -> None:
    file = platform.checkout / "models" / "sim-b.yaml"
    before = file.read_text()
    platform.edit_model("sim-b", engine_args={"no_such_argument": 1})

    async def fail_and_take_back() -> Load:
        async with Load(platform.http, platform.grpc, ["sim-b"]) as load:
            failed = await asyncio.to_thread(platform.slipway, "up", check=False, timeout_s=200)
            assert failed.returncode == 1
            assert "ends as often as it starts" in failed.stderr
            file.write_text(before)
            await asyncio.to_thread(platform.slipway, "up", timeout_s=200)
            await asyncio.sleep(8)  # what the second run deletes drains meanwhile
        return load

    job = job_of_each_model(platform)["sim-b"]
    load = asyncio.run(fail_and_take_back())
    assert load.failures == []
    assert job_of_each_model(platform)["sim-b"] == job
    assert len(serving(platform, job)) >= 1
    assert backends(platform, "sim-b") == [job]
    platform.slipway("preview", "--expect-no-changes")
