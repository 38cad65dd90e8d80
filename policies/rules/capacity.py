"""Whether the models' promises can hold: latency, load, memory, scaling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rules.facts import (
    flag_or_none,
    mapping,
    number,
    number_or_none,
    require,
    text,
    text_or_none,
)
from rules.rule import (
    ADVICE,
    ALWAYS,
    MODEL_SERVICE,
    NODE_POOL,
    PRODUCTION,
    PRODUCTION_ADVICE,
    SHARED,
    Resource,
    rule,
)

# Fabrics on which the devices of different nodes read each other's memory.
RDMA_FABRICS = frozenset({"efa", "infiniband", "roce"})


def _is_estimated(model: Mapping[str, Any]) -> bool:
    """Models on CPU nodes have no estimate to compare with."""
    return number(model, "replica.accelerators") > 0


@rule(
    MODEL_SERVICE,
    severity=SHARED,
    why="The planner's estimate at the declared load misses the model's latency goal: the change"
    " buys machines that cannot keep the promise.",
    fix="Choose a faster pool or a wider layout (`slipway plan --sweep MODEL`), raise the replicas,"
    " or relax `slo:` in the model's file.",
)
def slo_infeasible(model: Resource) -> Iterator[str]:
    """A model's latency goal is met under its declared load"""
    if not _is_estimated(model.props):
        return
    require(model.props, "capacity.meets_goal")
    if flag_or_none(model.props, "capacity.meets_goal") is False:
        yield "misses its latency goal under the declared load" + _estimates(model.props)


def _estimates(model: Mapping[str, Any]) -> str:
    parts = []
    for quantity in ("ttft", "tpot"):
        goal = number_or_none(model, f"goal.{quantity}_p95_ms")
        estimate = number_or_none(model, f"capacity.{quantity}_ms")
        if goal is not None and estimate is not None:
            parts.append(f"{quantity.upper()} {estimate:.0f} ms, goal {goal:.0f} ms")
    return f" ({'; '.join(parts)})" if parts else ""


@rule(
    MODEL_SERVICE,
    severity=PRODUCTION_ADVICE,
    why="Replicas, latency and cost per token can be planned only with a goal and a load.",
    fix="Add `slo:` and `load:` to the model's file.",
)
def undeclared_load(model: Resource) -> Iterator[str]:
    """A production model declares its latency goal and its load"""
    for fact in ("goal.ttft_p95_ms", "goal.tpot_p95_ms", "load"):
        require(model.props, fact)
    goal = mapping(model.props, "goal")
    if not any(number_or_none(goal, f"{name}_p95_ms") for name in ("ttft", "tpot")):
        yield "declares no latency goal"
    if not mapping(model.props, "load"):
        yield "declares no load"


@rule(
    MODEL_SERVICE,
    severity=SHARED,
    why="Requests arrive faster than all replicas can serve them: the queue grows without bound.",
    fix="Raise `replicas.max`, or choose a pool whose devices serve more each.",
)
def replicas_below_load(model: Resource) -> Iterator[str]:
    """The maximum number of replicas carries the declared load"""
    if not _is_estimated(model.props):
        return
    require(model.props, "capacity.replicas_needed")
    needed = number_or_none(model.props, "capacity.replicas_needed")
    most = number(model.props, "scaling.max_replicas")
    if needed is not None and needed > most:
        yield f"needs {math.ceil(needed)} replicas for the declared load, may have {most:.0f}"


@rule(
    MODEL_SERVICE,
    severity=PRODUCTION,
    why="When load ramps faster than a new replica starts, latency falls off a cliff (measured"
    " elsewhere: a start of 120 s instead of 90 s took the mean TTFT from 3 s to 35 s). Only"
    " capacity that is already warm bridges the gap.",
    fix="Raise `replicas.min` by one above what the load needs, or shorten the start (weights on"
    " local disks, images in the machine image).",
)
def no_warm_capacity(model: Resource) -> Iterator[str]:
    """A spare replica is warm where a new one starts slower than the load ramps"""
    if not _is_estimated(model.props):
        return
    require(model.props, "capacity.cold_start_cliff_s")
    start_s = number(model.props, "capacity.cold_start_s")
    cliff_s = number_or_none(model.props, "capacity.cold_start_cliff_s")
    if cliff_s is None:  # no ramp is declared
        return
    needed = math.ceil(number(model.props, "capacity.replicas_needed"))
    floor = number(model.props, "scaling.min_replicas")
    if start_s > cliff_s and floor <= needed:
        yield (
            f"a replica starts in {start_s:.0f} s and the ramp allows {cliff_s:.0f} s; all"
            f" {floor:.0f} of the minimum are needed for the load itself"
        )


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="The engine refuses to start when one sequence of full length exceeds its KV cache.",
    fix="Lower `max_model_len`, quantize weights or KV cache, or use more devices"
    " (`slipway fit MODEL --gpu GPU`).",
)
def kv_cache_below_one_sequence(model: Resource) -> Iterator[str]:
    """The KV cache holds at least one sequence of full length"""
    held = number(model.props, "memory.kv_tokens")
    length = number(model.props, "engine.max_model_len")
    if held < length:
        yield f"the KV cache holds {held:.0f} tokens, one sequence may have {length:.0f}"


@rule(
    MODEL_SERVICE,
    severity=ADVICE,
    why="Sequences beyond the KV cache are preempted and computed again: work is done twice.",
    fix="Lower `max_num_seqs`, or give the KV cache more room.",
)
def sequences_above_kv_cache(model: Resource) -> Iterator[str]:
    """The KV cache holds as many sequences of mean length as the engine may run"""
    most = number(model.props, "engine.max_num_seqs")
    require(model.props, "load")
    if not mapping(model.props, "load"):
        return
    length = number(model.props, "load.input_tokens") + number(model.props, "load.output_tokens")
    held = number(model.props, "memory.kv_tokens") // length
    if held < most:
        yield f"runs up to {most:.0f} sequences; the KV cache holds {held:.0f} of mean length"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="The gateway answers 429 above its circuit breaker: with a limit below the engine's batch,"
    " replicas can never be full and the autoscaler sees too little load.",
    fix="Keep the route's limit at or above `max_num_seqs`; the planner's default is twice that.",
)
def breaker_below_streams(model: Resource) -> Iterator[str]:
    """The gateway lets through as many requests as a replica serves at once"""
    breaker = number(model.props, "route.max_concurrent_requests_per_replica")
    streams = number(model.props, "engine.max_num_seqs")
    if breaker < streams:
        yield f"the gateway admits {breaker:.0f} requests, a replica serves {streams:.0f}"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="A replica that leaves is killed at the end of its drain: longer streams are cut in every"
    " deployment and scale-in.",
    fix="Raise `timeouts.drain_s` to the longest generation you allow.",
)
def drain_below_longest_stream(model: Resource) -> Iterator[str]:
    """A leaving replica has time to finish its longest stream"""
    drain_s = number(model.props, "replica.drain_timeout_s")
    stream_s = number(model.props, "route.max_stream_duration_s")
    if drain_s < stream_s:
        yield f"drains for {drain_s:.0f} s, a stream may last {stream_s:.0f} s"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="Tensor parallelism exchanges activations twice per layer and token; over plain Ethernet"
    " that is slower than the computation itself.",
    fix="Keep `parallel.tensor` within one node and split over nodes with `parallel.pipeline`, or"
    " use instances with EFA, InfiniBand or RoCE.",
)
def tensor_parallel_without_rdma(model: Resource) -> Iterator[str]:
    """Tensor parallelism crosses nodes only over RDMA"""
    if not _is_estimated(model.props):
        return
    degree = number(model.props, "capacity.layout.tensor")
    on_node = number(model.props, "capacity.accelerators_per_node")
    fabric = text(model.props, "capacity.fabric")
    if degree > on_node and fabric not in RDMA_FABRICS:
        yield (
            f"spreads {degree:.0f} tensor-parallel devices over nodes of {on_node:.0f} on {fabric}"
        )


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="In every layer the experts' devices exchange tokens with all others, and at every step"
    " each data-parallel rank waits for all others: over hosts the slowest link decides, and one"
    " host that leaves stops them all.",
    fix="Leave `parallel.expert` and `parallel.data` out, split over hosts with"
    " `parallel.pipeline`, and raise `replicas` instead of `data`.",
)
def expert_or_data_parallel_over_hosts(model: Resource) -> Iterator[str]:
    """Expert and data parallelism stay inside a host"""
    hosts = number(model.props, "replica.nodes")
    if hosts == 1:
        return
    for kind in ("expert", "data"):
        degree = number(model.props, f"capacity.layout.{kind}")
        if degree > 1:
            yield f"spreads {kind} parallelism of {degree:.0f} over {hosts:.0f} hosts"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="A pipeline over hosts sends every step's activations from stage to stage: over plain TCP"
    " each boundary waits for the kernel's network stack, and shares its link with all else.",
    fix="Use a pool with EFA, InfiniBand or RoCE, or accept the latency with"
    " `fabric: {kind: tcp, allow_tcp: true}` of the pool.",
)
def pipeline_over_tcp(model: Resource) -> Iterator[str]:
    """A pipeline crosses hosts over TCP only where its pool allows it"""
    require(model.props, "capacity.allow_tcp")
    hosts = number(model.props, "replica.nodes")
    if hosts == 1 or text(model.props, "capacity.fabric") in RDMA_FABRICS:
        return
    if flag_or_none(model.props, "capacity.allow_tcp") is not True:
        yield f"runs a pipeline over {hosts:.0f} hosts on tcp, which its pool does not allow"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="The members of a replica over several hosts live and die together: a host that they share"
    " with other replicas ties these to them.",
    fix="Choose `parallel.pipeline` so that tensor x pipeline is a multiple of the devices of a"
    " host.",
)
def group_on_parts_of_hosts(model: Resource) -> Iterator[str]:
    """A replica over several hosts takes all devices of each"""
    hosts = number(model.props, "replica.nodes")
    if hosts == 1 or not _is_estimated(model.props):
        return
    taken = number(model.props, "replica.accelerators")
    on_each = number(model.props, "capacity.accelerators_per_node")
    if taken != hosts * on_each:
        yield f"takes {taken:.0f} of the {hosts * on_each:.0f} devices of {hosts:.0f} hosts"


@rule(
    MODEL_SERVICE,
    severity=ADVICE,
    why="A target above what the engine runs at once is reached only by queueing: the autoscaler"
    " would add replicas only after users already wait.",
    fix="Lower `autoscaling.target_inflight_per_replica`; half of `max_num_seqs` is the default.",
)
def scaling_target_above_batch(model: Resource) -> Iterator[str]:
    """The autoscaler adds replicas before requests queue"""
    target = number(model.props, "scaling.target_inflight_per_replica")
    batch = number(model.props, "engine.max_num_seqs")
    if target > batch:
        yield f"scales out above {target:.0f} requests a replica, which serves {batch:.0f} at once"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="A replica that loads longer than its deadline is killed and restarted again and again.",
    fix="Raise `timeouts.load_s` above the estimate, with room to spare.",
)
def load_timeout_below_start(model: Resource) -> Iterator[str]:
    """A replica's deadline for loading is longer than loading takes"""
    if not _is_estimated(model.props):
        return
    estimate_s = number(model.props, "capacity.load_s")
    deadline_s = number(model.props, "replica.load_timeout_s")
    if estimate_s > deadline_s:
        yield f"takes about {estimate_s:.0f} s to load, its deadline is {deadline_s:.0f} s"


@rule(
    MODEL_SERVICE,
    severity=PRODUCTION,
    why="With one replica every crash, node failure and drain is an outage as long as its start.",
    fix="Set `replicas.min` to 2 or more.",
)
def single_replica(model: Resource) -> Iterator[str]:
    """A production model has at least two replicas"""
    floor = number(model.props, "scaling.min_replicas")
    if floor < 2:
        yield f"may shrink to {floor:.0f} replica"


@rule(
    NODE_POOL,
    severity=SHARED,
    why="Models of a pool that together may ask for more devices than it has wait for each other:"
    " a peak of one becomes an outage of another.",
    fix="Raise the pool's `nodes.max`, or lower the models' `replicas.max`.",
)
def pool_overcommitted(pool: Resource) -> Iterator[str]:
    """A pool holds all of its models at their maximum"""
    require(pool.props, "accelerator")
    if text_or_none(pool.props, "accelerator") is None:
        return
    asked = number(pool.props, "capacity.accelerators_used_at_most")
    most = number(pool.props, "capacity.nodes_max") * number(pool.props, "accelerators_per_node")
    if asked > most:
        yield f"its models may ask for {asked:.0f} devices, it grows to at most {most:.0f}"


@rule(
    NODE_POOL,
    severity=SHARED,
    why="Above the cloud's quota, scale-out fails when it is needed most.",
    fix="Have the quota raised before this change, or lower the pool's `nodes.max`.",
)
def pool_above_quota(pool: Resource) -> Iterator[str]:
    """A pool stays within the account's quota"""
    require(pool.props, "capacity.quota_nodes")
    quota = number_or_none(pool.props, "capacity.quota_nodes")
    if quota is None:  # owned machines, or no quota is declared
        return
    most = number(pool.props, "capacity.nodes_max")
    if most > quota:
        yield f"may grow to {most:.0f} nodes, the quota is {quota:.0f}"
