"""Reading measurements from Prometheus, and keeping them as a calibration."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.applied import Applied, from_document
from cli.clusters.measured import ask, measure
from cli.environment import Environment
from cli.errors import CliError
from cli.views.comparison_table import comparison_document, comparison_table
from slipway.inputs import load_inputs
from slipway.planner.engines.adapter import EngineMetrics, InfoLabel
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.reports.comparison import Measured, MeasuredDevices, compare, compare_names
from stacks.planning import make_plan
from tests.unit.cli.documents import plan_document
from tests.unit.planner.reports.test_comparison import SEEN

ROOT = Path(__file__).parents[4]

# Prometheus's answers, by a pattern of the query.
ANSWERS = {
    r"^count\(up": 2.0,
    r"^sum\(rate\(vllm:request_success_total\{": 0.5,
    r"^sum\(rate\(vllm:generation_tokens_total\{": 50.0,
    r"^sum\(rate\(vllm:prompt_tokens_total\{": 100.0,
    r"^sum\(rate\(vllm:time_to_first_token_seconds_sum\{": 0.05,
    r"^sum\(rate\(vllm:time_to_first_token_seconds_count\{": 0.5,
    r"^sum\(rate\(vllm:inter_token_latency_seconds_sum\{": 3.0,
    r"^sum\(rate\(vllm:inter_token_latency_seconds_count\{": 50.0,
    r"^histogram_quantile\(0.95, .*time_to_first_token": 240.0,
    r"^avg\(avg_over_time\(vllm:kv_cache_usage_perc\{": 0.125,
}
Answer = float | Sequence[Mapping[str, str]]  # a number, or the labels of series
UUIDS = ("GPU-1", "GPU-2")
DEVICE = {"modelName": "NVIDIA H100 80GB HBM3", "DCGM_FI_DRIVER_VERSION": "580.95.05"}


def of_cache(instance: str, tokens: str, engine: str = "0") -> dict[str, str]:
    return {"instance": instance, "kv_cache_size_tokens": tokens, "engine": engine}


def allocation(job: str, *uuids: str, status: str = "running") -> dict[str, Any]:
    """As Nomad lists it, with the devices of its server."""
    devices = [{"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "DeviceIDs": list(uuids)}]
    tasks = {"proxy": {"Devices": None}, "server": {"Devices": devices if uuids else None}}
    resources = {"AllocatedResources": {"Tasks": tasks}}
    return {"JobID": job, "ClientStatus": status, **resources}


def environment(port: int) -> Applied:
    """One whose Prometheus is at this port."""
    applied = from_document(plan_document())
    return dataclasses.replace(applied, prometheus=f"http://127.0.0.1:{port}")


@contextmanager
def prometheus(answers: Mapping[str, Answer]) -> Iterator[Applied]:
    """An environment whose Prometheus gives these answers, by a pattern of the query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["query"][0]
            answer = next((v for pattern, v in answers.items() if re.search(pattern, query)), ())
            series = [({}, answer)] if isinstance(answer, float) else [(v, 1.0) for v in answer]
            found = [{"metric": labels, "value": [0, str(value)]} for labels, value in series]
            body = json.dumps({"status": "success", "data": {"result": found}}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield environment(server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def test_rates_and_histograms_become_figures_per_request_and_per_replica() -> None:
    with prometheus(ANSWERS) as applied:
        seen = measure(applied, {"smollm2": METRICS}, [], window_s=300)["smollm2"]
    assert (seen.replicas, seen.requests_per_s) == (2, 0.5)
    assert (seen.input_tokens, seen.output_tokens) == (200.0, 100.0)
    assert (seen.ttft_ms, seen.tpot_ms) == (100.0, 60.0)
    assert (seen.ttft_p95_ms, seen.tpot_p95_ms) == (240.0, None)
    assert seen.kv_cache_usage == 0.125


def test_a_model_without_requests_has_no_times() -> None:
    with prometheus({}) as applied:
        seen = measure(applied, {"smollm2": METRICS}, [], window_s=300)["smollm2"]
    assert seen.replicas == 0
    assert {seen.ttft_ms, seen.tpot_ms, seen.input_tokens, seen.kv_cache_usage} == {None}


def test_a_replica_has_the_tokens_of_all_its_engines_and_the_smallest_replica_counts() -> None:
    series = [
        of_cache("a:1", "1000", "0"),
        of_cache("a:1", "1000", "1"),
        of_cache("b:1", "900", "0"),
        of_cache("b:1", "1000", "1"),
    ]
    with prometheus({r'^vllm:cache_config_info\{model="smollm2"\}$': series}) as applied:
        seen = measure(applied, {"smollm2": METRICS}, [], window_s=300)["smollm2"]
    assert seen.kv_tokens == 1900


def test_an_engine_without_a_kv_cache_tells_no_tokens() -> None:
    with prometheus({r"^vllm:cache_config_info\{": [of_cache("a:1", "None")]}) as applied:
        seen = measure(applied, {"smollm2": METRICS}, [], window_s=300)["smollm2"]
    assert seen.kv_tokens is None


def test_the_devices_of_a_model_are_those_that_nomad_gave_its_running_replicas() -> None:
    allocations = [
        allocation("model-chat-3f9c1a", *UUIDS),
        allocation("model-chat-3f9c1a", "GPU-3", status="complete"),
        allocation("model-chat-large-3f9c1a", "GPU-4"),
        allocation("device-evacuation"),
    ]
    answers: dict[str, Answer] = {
        r'^slipway_device_healthy\{UUID=~"GPU-1\|GPU-2"\}$': [DEVICE, DEVICE],
        r'^max\(DCGM_FI_DEV_FB_USED\{UUID=~"GPU-1\|GPU-2"\}\)$': 76_000.0,
        r'^slipway_device_healthy\{UUID=~"GPU-4"\}$': [DEVICE | {"modelName": "NVIDIA L4"}],
    }
    models = {"chat": METRICS, "chat-large": METRICS, "cpu": METRICS}
    with prometheus(answers) as applied:
        seen = measure(applied, models, allocations, window_s=300)
    driver = ("580.95.05",)
    assert seen["chat"].jobs == ("model-chat-3f9c1a",)
    assert seen["chat"].devices == MeasuredDevices(
        models=("NVIDIA H100 80GB HBM3",), drivers=driver, used_bytes=76_000 * 2**20
    )
    assert seen["chat-large"].devices == MeasuredDevices(
        models=("NVIDIA L4",), drivers=driver, used_bytes=None
    )
    assert (seen["cpu"].jobs, seen["cpu"].devices) == ((), None)


def test_a_change_shows_both_jobs_of_a_model() -> None:
    both = [allocation(f"model-chat-{digest}") for digest in ("3f9c1a", "0a1b2c", "3f9c1a")]
    with prometheus({}) as applied:
        seen = measure(applied, {"chat": METRICS}, both, window_s=300)["chat"]
    assert seen.jobs == ("model-chat-0a1b2c", "model-chat-3f9c1a")


def test_devices_of_which_nothing_is_known_are_not_shown() -> None:
    with prometheus({}) as applied:
        allocations = [allocation("model-chat-3f9c1a", *UUIDS)]
        seen = measure(applied, {"chat": METRICS}, allocations, window_s=300)["chat"]
    assert seen.devices is None


def test_a_prometheus_that_is_gone_is_an_error() -> None:
    with pytest.raises(httpx.HTTPError):
        measure(environment(port=9), {"smollm2": METRICS}, [], window_s=300)


def test_each_model_is_measured_by_the_names_that_its_own_engine_reports() -> None:
    other = EngineMetrics(
        requests="other:answers_total",
        input_tokens="other:in_total",
        output_tokens="other:out_total",
        running="other:batch",
        kv_cache_usage="other:cache",
        kv_tokens=InfoLabel(metric="other:info", label="tokens"),
        ttft="other:first",
        tpot="other:next",
    )
    answers: dict[str, Answer] = {
        **ANSWERS,
        r"^sum\(rate\(other:answers_total\{": 0.25,
        r"^sum\(rate\(other:in_total\{": 25.0,
        r"^sum\(rate\(other:out_total\{": 75.0,
        r"^avg\(avg_over_time\(other:batch\{": 3.0,
        r"^avg\(avg_over_time\(other:cache\{": 0.5,
        r"^other:info\{": [{"instance": "b:1", "tokens": "4096"}],
        r"^sum\(rate\(other:first_sum\{": 0.5,
        r"^sum\(rate\(other:first_count\{": 0.25,
        r"^sum\(rate\(other:next_sum\{": 0.75,
        r"^sum\(rate\(other:next_count\{": 75.0,
        r"^histogram_quantile\(0.95, .*other:first_bucket": 2500.0,
        r"^histogram_quantile\(0.95, .*other:next_bucket": 20.0,
    }
    with prometheus(answers) as applied:
        seen = measure(applied, {"a": METRICS, "b": other}, [], window_s=300)
    assert seen["a"].requests_per_s == 0.5
    assert seen["b"] == Measured(
        window_s=300,
        jobs=(),
        replicas=2,
        requests_per_s=0.25,
        output_tokens_per_s=75.0,
        concurrency=3.0,
        kv_cache_usage=0.5,
        kv_tokens=4096,
        devices=None,
        input_tokens=100.0,
        output_tokens=300.0,
        ttft_ms=2000.0,
        tpot_ms=10.0,
        ttft_p95_ms=2500.0,
        tpot_p95_ms=20.0,
    )


def test_what_to_do_about_a_prometheus_that_does_not_answer_holds_for_every_target(
    tmp_path: Path,
) -> None:
    with prometheus({}) as answered:
        silent = answered  # its server has ended after this block
    with pytest.raises(CliError, match="Prometheus of dev does not answer") as refused:
        ask(
            Environment(name="dev", checkout=tmp_path, cache=tmp_path),
            silent,
            load_inputs(ROOT, "dev"),
            window_s=600,
        )
    assert refused.value.fix.startswith("slipway status -s dev shows what runs")
    assert "slipway start" not in refused.value.fix


def test_the_document_has_promises_and_measurements() -> None:
    plan = make_plan(load_inputs(ROOT, "aws"))
    measured = {plan.models[0].name: SEEN}
    rows, names = compare(plan, measured), compare_names(plan, measured)
    document = json.loads(json.dumps(comparison_document(rows, names, measured)))
    assert document["schema_version"] == 1
    assert {row["model"] for row in document["rows"]} == {model.name for model in plan.models}
    assert document["measured"][plan.models[0].name]["ttft_ms"] == 120.0
    assert comparison_table(rows, names, window_s=600) is not None
