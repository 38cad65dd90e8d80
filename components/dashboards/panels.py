"""Every panel of the dashboards, as data: what it asks Prometheus, and why it is worth a look.

Each query has a series on a running platform after its first request, without accelerators too
(tests/live/test_dashboards.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FLEET, MODEL, GATEWAY = "fleet", "model", "gateway"

# Grafana replaces them: by the models that are chosen above the panels, and by four scrape
# intervals or what a pixel stands for, whichever is longer.
CHOSEN = 'model=~"$model"'
WINDOW = "$__rate_interval"

Kind = Literal["lines", "number"]
# Grafana's identifiers of units.
SECONDS, SHARE, COUNT = "s", "percentunit", "short"
REQUESTS_PER_S, PER_S, MEBIBYTES, DAYS = "reqps", "cps", "mbytes", "d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """PromQL, and the name of each series in the legend, with labels in double braces."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    dashboard: str
    row: str
    title: str
    about: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "lines"


def _percentiles(metric: str, by: str, of: str, *, legend: str) -> tuple[Query, ...]:
    """p50, p95 and p99 of a histogram."""
    return tuple(
        Query(
            expression=f"histogram_quantile({share}, sum by (le, {by})"
            f" (rate({metric}_bucket{of}[{WINDOW}])))",
            legend=f"{legend} p{round(100 * share)}",
        )
        for share in (0.5, 0.95, 0.99)
    )


def _rate(metric: str, by: str, of: str) -> str:
    return f"sum by ({by}) (rate({metric}{of}[{WINDOW}]))"


def _of_chosen(title: str, about: str, unit: str, *queries: Query, row: str) -> Panel:
    return Panel(dashboard=MODEL, row=row, title=title, about=about, unit=unit, queries=queries)


# An agent repeats the last figures that it had in an earlier state.
_READY = '{node_status="ready"}'
_OF_MODELS = '{exported_job=~"model-.+"}'  # Nomad's jobs of models
_CHOSEN = f"{{{CHOSEN}}}"
_CLIENTS = '{envoy_http_conn_manager_prefix="gateway"}'  # what clients ask, and no scrape
_CLUSTER = "envoy_cluster_name"
_REPLICAS = '{envoy_cluster_name=~"model-.+"}'  # Envoy's clusters of replicas

FLEET_PANELS = (
    Panel(
        dashboard=FLEET,
        row="Now",
        title="Targets that answer",
        about="Share of what Prometheus scrapes. Below 100 %, slipway status names the others.",
        unit=SHARE,
        queries=(Query(expression="sum(up) / count(up)", legend="answer"),),
        kind="number",
    ),
    Panel(
        dashboard=FLEET,
        row="Now",
        title="Nodes",
        about="Nodes whose Nomad agent answers, by pool.",
        unit=COUNT,
        queries=(
            Query(
                expression="count by (node_pool) (count by (node, node_pool)"
                " (nomad_client_uptime))",
                legend="{{node_pool}}",
            ),
        ),
        kind="number",
    ),
    Panel(
        dashboard=FLEET,
        row="Now",
        title="Server failures that are survived",
        about="How many more servers of Consul and of Nomad may fail before a quorum is lost.",
        unit=COUNT,
        queries=(
            Query(expression="min(consul_autopilot_failure_tolerance)", legend="Consul"),
            Query(expression="min(nomad_nomad_autopilot_failure_tolerance)", legend="Nomad"),
        ),
        kind="number",
    ),
    Panel(
        dashboard=FLEET,
        row="Now",
        title="Accelerators aside",
        about="Devices that are not healthy and get no work; slipway hosts says which.",
        unit=COUNT,
        queries=(
            Query(expression="count(slipway_device_healthy == 0) or vector(0)", legend="aside"),
        ),
        kind="number",
    ),
    Panel(
        dashboard=FLEET,
        row="Replicas",
        title="Replicas that run",
        about="Allocations of each model's job. During a change the old and the new job run.",
        unit=COUNT,
        queries=(
            Query(
                expression=f"max by (exported_job) (nomad_nomad_job_summary_running{_OF_MODELS})",
                legend="{{exported_job}}",
            ),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Replicas",
        title="Replicas that wait",
        about="Allocations without a place on a node, and those that start.",
        unit=COUNT,
        queries=(
            Query(
                expression=f"max by (exported_job) (nomad_nomad_job_summary_queued{_OF_MODELS})",
                legend="{{exported_job}} without a place",
            ),
            Query(
                expression=f"max by (exported_job) (nomad_nomad_job_summary_starting{_OF_MODELS})",
                legend="{{exported_job}} starting",
            ),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Replicas",
        title="Evaluations blocked",
        about="Nomad's decisions that wait for room on the nodes.",
        unit=COUNT,
        queries=(
            Query(expression="max(nomad_nomad_blocked_evals_total_blocked)", legend="blocked"),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Hosts",
        title="Processors",
        about="Share of each node's processors in use.",
        unit=SHARE,
        queries=(
            Query(
                expression=f"1 - avg by (node) (nomad_client_host_cpu_idle{_READY}) / 100",
                legend="{{node}}",
            ),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Hosts",
        title="Memory",
        about="Share of each node's memory in use.",
        unit=SHARE,
        queries=(
            Query(
                expression=f"max by (node) (nomad_client_host_memory_used{_READY})"
                f" / max by (node) (nomad_client_host_memory_total{_READY})",
                legend="{{node}}",
            ),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Hosts",
        title="Disk",
        about="Share in use of the disk that has Nomad's data, and of others that Nomad sees.",
        unit=SHARE,
        queries=(
            Query(
                expression="max by (node, disk)"
                f" (nomad_client_host_disk_used_percent{_READY}) / 100",
                legend="{{node}} {{disk}}",
            ),
        ),
    ),
    Panel(
        dashboard=FLEET,
        row="Hosts",
        title="Memory to give",
        about="What each node can still promise to replicas.",
        unit=MEBIBYTES,
        queries=(
            Query(
                expression=f"max by (node) (nomad_client_unallocated_memory{_READY})",
                legend="{{node}}",
            ),
        ),
    ),
)

MODEL_PANELS = (
    _of_chosen(
        "TTFT",
        "Time to the first token, as the engine measures it: from its queue on, without the"
        " gateway.",
        SECONDS,
        *_percentiles("vllm:time_to_first_token_seconds", "model", _CHOSEN, legend="{{model}}"),
        row="Latency",
    ),
    _of_chosen(
        "TPOT",
        "Time between two tokens of an answer.",
        SECONDS,
        *_percentiles("vllm:inter_token_latency_seconds", "model", _CHOSEN, legend="{{model}}"),
        row="Latency",
    ),
    _of_chosen(
        "Wait in the queue",
        "The part of TTFT before the engine puts a request into a batch.",
        SECONDS,
        *_percentiles("vllm:request_queue_time_seconds", "model", _CHOSEN, legend="{{model}}"),
        row="Latency",
    ),
    _of_chosen(
        "Whole answers",
        "From a request's arrival in the engine to its last token.",
        SECONDS,
        *_percentiles("vllm:e2e_request_latency_seconds", "model", _CHOSEN, legend="{{model}}"),
        row="Latency",
    ),
    _of_chosen(
        "Requests",
        "Answers that ended, by reason: stop and length are whole, abort is a client that left.",
        REQUESTS_PER_S,
        Query(
            expression=_rate("vllm:request_success_total", "model, finished_reason", _CHOSEN),
            legend="{{model}} {{finished_reason}}",
        ),
        row="Load",
    ),
    _of_chosen(
        "Tokens",
        "Of prompts (computed or found in the cache) and of answers.",
        PER_S,
        Query(
            expression=_rate("vllm:prompt_tokens_total", "model", _CHOSEN),
            legend="{{model}} prompts",
        ),
        Query(
            expression=_rate("vllm:generation_tokens_total", "model", _CHOSEN),
            legend="{{model}} answers",
        ),
        row="Load",
    ),
    _of_chosen(
        "Requests in engines",
        "In batches, and in queues. The autoscaler adds replicas by those in flight.",
        COUNT,
        Query(
            expression=f"sum by (model) (vllm:num_requests_running{_CHOSEN})",
            legend="{{model}} running",
        ),
        Query(
            expression=f"sum by (model) (vllm:num_requests_waiting{_CHOSEN})",
            legend="{{model}} waiting",
        ),
        row="Load",
    ),
    _of_chosen(
        "Replicas that answer Prometheus",
        "Each engine is one target.",
        COUNT,
        Query(
            expression=f'count by (model) (up{{{CHOSEN}, service=~".+-(openai|engine)"}} == 1)',
            legend="{{model}}",
        ),
        row="Load",
    ),
    _of_chosen(
        "KV cache in use",
        "Of each replica. Near 100 %, requests wait or are preempted.",
        SHARE,
        Query(expression=f"vllm:kv_cache_usage_perc{_CHOSEN}", legend="{{replica}}"),
        row="Cache",
    ),
    _of_chosen(
        "Prompt tokens found in the cache",
        "Share of the prefix cache's hits; no value while nothing is asked.",
        SHARE,
        Query(
            expression=f"{_rate('vllm:prefix_cache_hits_total', 'model', _CHOSEN)}"
            f" / {_rate('vllm:prefix_cache_queries_total', 'model', _CHOSEN)}",
            legend="{{model}}",
        ),
        row="Cache",
    ),
    _of_chosen(
        "Preemptions",
        "Requests put back into the queue because the KV cache was full; their tokens are computed"
        " again.",
        PER_S,
        Query(expression=_rate("vllm:num_preemptions_total", "model", _CHOSEN), legend="{{model}}"),
        row="Cache",
    ),
)

GATEWAY_PANELS = (
    Panel(
        dashboard=GATEWAY,
        row="Clients",
        title="Answers by class of their status",
        about="2 is for 200 to 299. A stream's status is that of its beginning.",
        unit=REQUESTS_PER_S,
        queries=(
            Query(
                expression=_rate(
                    "envoy_http_downstream_rq_xx", "envoy_response_code_class", _CLIENTS
                ),
                legend="{{envoy_response_code_class}}xx",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Clients",
        title="Requests and connections of clients",
        about="Open now, of each Envoy.",
        unit=COUNT,
        queries=(
            Query(
                expression=f"sum by (node) (envoy_http_downstream_rq_active{_CLIENTS})",
                legend="{{node}} requests",
            ),
            Query(
                expression=f"sum by (node) (envoy_http_downstream_cx_active{_CLIENTS})",
                legend="{{node}} connections",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Clients",
        title="Days until the first certificate expires",
        about="Of all certificates that an Envoy has. slipway up renews the platform's own.",
        unit=DAYS,
        queries=(
            Query(
                expression="min by (node) (envoy_server_days_until_first_cert_expiring)",
                legend="{{node}}",
            ),
        ),
        kind="number",
    ),
    Panel(
        dashboard=GATEWAY,
        row="Replicas",
        title="Requests in flight",
        about="By model and protocol, over all Envoys.",
        unit=COUNT,
        queries=(
            Query(
                expression=f"sum by ({_CLUSTER}) (envoy_cluster_upstream_rq_active{_REPLICAS})",
                legend="{{envoy_cluster_name}}",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Replicas",
        title="Replicas in rotation",
        about="Those that get requests, and all that Envoy knows.",
        unit=COUNT,
        queries=(
            Query(
                expression=f"min by ({_CLUSTER}) (envoy_cluster_membership_healthy{_REPLICAS})",
                legend="{{envoy_cluster_name}} healthy",
            ),
            Query(
                expression=f"max by ({_CLUSTER}) (envoy_cluster_membership_total{_REPLICAS})",
                legend="{{envoy_cluster_name}} known",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Replicas",
        title="Failed answers of replicas",
        about="Status 500 to 599, which the gateway may have tried elsewhere.",
        unit=REQUESTS_PER_S,
        queries=(
            Query(
                expression=_rate(
                    "envoy_cluster_upstream_rq_xx",
                    _CLUSTER,
                    '{envoy_cluster_name=~"model-.+", envoy_response_code_class="5"}',
                )
                + " or vector(0)",
                legend="{{envoy_cluster_name}}",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Replicas",
        title="Models at their limit of requests",
        about="1 while the gateway turns requests of a model away (status 429 or 503).",
        unit=COUNT,
        queries=(
            Query(
                expression=f"max by ({_CLUSTER})"
                f" (envoy_cluster_circuit_breakers_default_rq_open{_REPLICAS})",
                legend="{{envoy_cluster_name}}",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Control plane",
        title="Envoys connected",
        about="By control plane, and what each Envoy says of its own connection.",
        unit=COUNT,
        queries=(
            Query(expression="sum by (node) (slipway_xds_envoys)", legend="{{node}} control plane"),
            Query(
                expression="min by (node) (envoy_control_plane_connected_state)",
                legend="{{node}} Envoy",
            ),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Control plane",
        title="From a change to its acknowledgement",
        about="How long it takes until every Envoy has a change of endpoints or routes.",
        unit=SECONDS,
        queries=_percentiles("slipway_xds_convergence_seconds", "type", "", legend="{{type}}"),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Control plane",
        title="Age of what Consul said",
        about="Above a minute the gateway keeps what it knew: look at Consul.",
        unit=SECONDS,
        queries=(
            Query(expression="max by (node) (slipway_xds_consul_stale_seconds)", legend="{{node}}"),
        ),
    ),
    Panel(
        dashboard=GATEWAY,
        row="Control plane",
        title="Refused routes, and replicas held",
        about="Documents that Envoy would not take, and replicas that stay in rotation although"
        " Consul takes them for unhealthy; slipway status --why MODEL shows both.",
        unit=COUNT,
        queries=(
            Query(expression="max(slipway_xds_refused_routes)", legend="refused routes"),
            Query(expression="sum(slipway_xds_held_replicas) or vector(0)", legend="replicas held"),
        ),
    ),
)

PANELS = (*FLEET_PANELS, *MODEL_PANELS, *GATEWAY_PANELS)
