"""Taking a node's work away, and giving it work again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from cli.clusters.nomad import Nomad
from cli.clusters.servers import must_answer
from cli.console import say
from cli.errors import WRONG_INPUT, CliError, InterruptedRunError
from cli.hosts.roster import roster, unknown
from cli.progress import board, telling
from components.node_pool.node_document import drain_timeout_s
from slipway.plan.platform import PlatformPlan

# Nomad stops at the deadline what found no other node, and a replica then has the same time to
# finish its requests; it leaves Consul first, and may have to be killed at the end.
MARGIN_S = 60
WATCH_S = 10  # for a change, before the time is looked at again


def drain(nomad: Nomad, plan: PlatformPlan, host: str) -> None:
    """Moves the host's work to other nodes and waits until none is left; the node then takes no
    work. A drain that has begun is continued. Interrupted, it goes on in Nomad."""
    with must_answer("Nomad", "nothing was changed"):
        node = _node(nomad, plan, host)
        deadline_s = _deadline_s(plan, node["NodePool"])
        _begin(nomad, node, host, deadline_s)
    try:
        with must_answer("Nomad", f"{host} goes on draining"):
            _wait(nomad, node["ID"], host, 2 * deadline_s + MARGIN_S)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"{host} goes on draining in Nomad",
            fix=f"{_command('drain', plan, host)} waits for it again,"
            f" {_command('return', plan, host)} gives it work again",
        ) from None
    say(f"{host} has no work and gets none; {_command('return', plan, host)} changes that")


def give_work(nomad: Nomad, plan: PlatformPlan, host: str) -> bool:
    """Lets Nomad place work on the host. A drain that goes on is ended. False if the host takes
    work already."""
    with must_answer("Nomad", "nothing was changed"):
        node = _node(nomad, plan, host)
        if node["SchedulingEligibility"] == "eligible" and not node["Drain"]:
            say(f"{host} takes work already")
            return False
        nomad.accept_work(node["ID"])
    say(f"{host} takes work again; what was moved away stays where it is")
    return True


def _deadline_s(plan: PlatformPlan, pool: str) -> int:
    """The platform's own deadline; for a node whose pool has left the file, the longest of any
    pool."""
    chosen = [each for each in plan.pools if each.name == pool] or plan.pools
    return max(drain_timeout_s(plan, each) for each in chosen)


def _begin(nomad: Nomad, node: Mapping[str, Any], host: str, deadline_s: int) -> None:
    if node["Drain"]:
        say(f"{host} drains already")
    elif node["SchedulingEligibility"] == "eligible" or nomad.watch_node(node["ID"], 0, 1)[0]:
        nomad.drain(node["ID"], deadline_s)
        say(f"{host} drains: its work moves to other hosts, for at most {deadline_s} s")


def _wait(nomad: Nomad, node_id: str, host: str, patience_s: float) -> None:
    started_s, running, index = time.monotonic(), list[str](), 0
    with telling(lambda: f"{len(running)} still run: {', '.join(running)}"):
        while True:
            before = running
            running, index = nomad.watch_node(node_id, index, wait_s=WATCH_S)
            waited_s = time.monotonic() - started_s
            if not running:
                return
            if waited_s > patience_s:
                raise CliError(
                    f"{host} still has work after {waited_s:.0f} s: {', '.join(running)}",
                    fix=f"slipway logs {host} nomad says what it waits for",
                )
            if running != before:
                board.log(f"  {len(running)} still run ({waited_s:.0f} s): {', '.join(running)}")


def _node(nomad: Nomad, plan: PlatformPlan, host: str) -> Mapping[str, Any]:
    """Nomad's node of a host. CliError (wrong input) for a server, or a name that nobody knows."""
    names = {member.name: member.role for member in roster(plan)}
    if names.get(host) == "server":
        nodes = sorted(name for name, role in names.items() if role == "node")
        raise CliError(
            f"{host} is a server: no replica runs there, so it has nothing to drain",
            fix=f"name a node: {', '.join(nodes)}",
            exit_code=WRONG_INPUT,
        )
    node = nomad.node_named(host)
    if node is not None:
        return node
    if host not in names:
        raise unknown(host, plan.environment, names)
    raise CliError(
        f"{host} is in the files of {plan.environment}, but Nomad does not know it",
        fix=f"slipway hosts -s {plan.environment} shows what it lacks; slipway up lets it join",
    )


def _command(verb: str, plan: PlatformPlan, host: str) -> str:
    return f"slipway {verb} {host} -s {plan.environment}"
