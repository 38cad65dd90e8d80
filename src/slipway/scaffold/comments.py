"""The comments in files, in the words of a person who writes them."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.plan.draft import ModelDraft
from slipway.planner.units import GIB

SIMULATED = "A simulated engine: no weights, and times from the profile's published constants."
STACKS: Mapping[str, str] = {
    "dev": "Processes on this machine: `slipway up -s {name}` starts them.",
    "metal": (
        "Machines of your own, each with systemd and sshd. Their public keys belong into the file\n"
        "known_hosts (docs/hosts.md), before `slipway up -s {name}`."
    ),
    "aws": (
        "A fleet on AWS: `slipway plan -s {name}` shows what it needs, costs and promises, and\n"
        "docs/operations/aws.md how it is brought up."
    ),
}

# Above keys of a stack file.
ABOVE: Mapping[str, str] = {
    "slipway:server_hosts": "Consul's and Nomad's servers: one, or three that survive one's loss.",
    "slipway:budget": "What the plan costs for the declared load, and with every model at its most,"
    " rounded up:\nraise it on purpose only.",
    "images": "Debian 12 for servers and the gateway's hosts; for the others an image with NVIDIA's"
    " driver\nand Python 3.11.",
    "load_balancer": "Clients in these networks reach the models; nobody asks who they are.",
}


def model_title(called: str, planned: ModelDraft, *, simulated: bool) -> str:
    """What is served, under which licence, and where the limits of the file come from."""
    license_name = planned.license or "its licence is not in the catalog"
    first = f"{called} ({license_name})."
    if simulated:
        return f"{first}\n{SIMULATED}"
    memory = planned.memory
    where = (
        f"{planned.layout.devices} x {planned.accelerator}"
        if planned.accelerator
        else f"a node of pool {planned.pool}"
    )
    return (
        f"{first}\nThe limits fit on every pool that may run it: {where} has a cache of"
        f" {memory.kv_tokens:,}\ntokens beside {memory.weights_bytes / GIB:.1f} GiB of weights."
    )


def stack_title(name: str, target: str) -> str:
    return STACKS[target].format(name=name)
