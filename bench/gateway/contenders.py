"""All contenders by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.gateway import plain_envoy
from bench.gateway.checkouts import earlier, this_checkout
from bench.gateway.contender import DIRECT, Contender, Place, Running, Start
from bench.gateway.own_gateway import Programs, gateway, weighing
from bench.gateway.peer_gateways import Peers, Router
from bench.gateway.routes import AFFINITY, LEAST_REQUEST
from toolchain.prepare import ToolJob, prepare

OURS_AFFINITY, OURS_LEAST_REQUEST = f"slipway {AFFINITY}", f"slipway {LEAST_REQUEST}"
OURS_WEIGHTS = f"{OURS_AFFINITY} with weights"
BEFORE = "slipway before"
CACHE_AWARE, ROUND_ROBIN = "vllm-router cache-aware", "vllm-router round robin"
PLAIN_ENVOY, LITELLM = "envoy round robin", "litellm"
# Those that bars compare come one after the other, so that they meet the same speed of the machine.
ROUTERS = {
    CACHE_AWARE: Router(package="vllm-router", policy="cache_aware"),
    ROUND_ROBIN: Router(package="vllm-router", policy="round_robin"),
    "vllm-router power of two": Router(package="vllm-router", policy="power_of_two"),
    "vllm-router consistent hash": Router(package="vllm-router", policy="consistent_hash"),
    "sglang-router cache-aware": Router(package="sglang-router", policy="cache_aware"),
    "smg cache-aware": Router(package="smg", policy="cache_aware"),
    "smg prefix hash": Router(package="smg", policy="prefix_hash"),
}
NAMES = (
    DIRECT,
    OURS_AFFINITY,
    OURS_WEIGHTS,
    OURS_LEAST_REQUEST,
    BEFORE,
    *ROUTERS,
    PLAIN_ENVOY,
    LITELLM,
)


def contenders(cache: Path, folder: Path, revision: str | None) -> dict[str, Contender]:
    """All of NAMES, but main of before only if there is a `revision` of it. Nothing is started."""
    peers = Peers(cache)
    envoy = prepare([ToolJob(name="envoy")], cache)["envoy"]
    now = Programs(this_checkout(folder / "now"), cache)
    starts: dict[str, Start] = {
        DIRECT: _direct,
        OURS_AFFINITY: partial(gateway, now, AFFINITY),
        OURS_WEIGHTS: partial(weighing, now, AFFINITY),
        OURS_LEAST_REQUEST: partial(gateway, now, LEAST_REQUEST),
        **{name: partial(peers.router, router) for name, router in ROUTERS.items()},
        PLAIN_ENVOY: partial(plain_envoy.round_robin, envoy),
        LITELLM: peers.litellm,
    }
    if revision is not None:
        before = Programs(earlier(revision, folder / "before"), cache)
        starts[BEFORE] = partial(gateway, before, LEAST_REQUEST)
    alone = {DIRECT: frozenset({1})}
    return {
        name: Contender(name=name, start=starts[name], concurrencies=alone.get(name))
        for name in NAMES
        if name in starts
    }


@contextmanager
def _direct(place: Place) -> Iterator[Running]:
    yield Running(address=place.replicas[0], processes=(), log=place.folder / "log")
