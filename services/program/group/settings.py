"""What a member is told of its group: by its document, and by the scheduler's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.group.membership import Meeting
from program.group.own_address import address_of, interface_with
from program.group.place import own_index, place_of

PORT = "SLIPWAY_PORT_GROUP"
# In values of variables: the interface with the host's address
# (src/slipway/planner/fabric/environment.py).
INTERFACE = "{interface}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The members of a replica, one on each host (`group` of schemas/replica.schema.json)."""

    members: int
    silence_s: float  # after so long without a word of a member the group ends
    formation_s: float  # how long a member waits for the others, at least
    interface: str  # of the fabric; "" where it has the control network's address
    environment: Mapping[str, str]  # of every member's engine


def read_group(content: Mapping[str, Any]) -> Group:
    """Raises ValueError naming the key that is wrong."""
    members = content.get("members")
    if not isinstance(members, int) or members < 2:
        raise ValueError(f"group.members: {members!r} is not a number of at least 2")
    seconds = {}
    for key in ("silence_s", "formation_s"):
        value = content.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"group.{key}: {value!r} is not a number of seconds above 0")
        seconds[key] = float(value)
    environment = content.get("environment", {})
    if not isinstance(environment, dict):
        raise ValueError(f"group.environment: {environment!r} is not an object")
    return Group(
        members=members,
        interface=str(content.get("interface", "")),
        environment={name: str(value) for name, value in environment.items()},
        **seconds,
    )


def read_meeting(group: Group, environment: Mapping[str, str]) -> Meeting:
    """Where this member meets the others. Raises ValueError naming the variable that is missing or
    wrong, or an interface that this host does not have."""

    def text(name: str) -> str:
        value = environment.get(name, "")
        if not value:
            raise ValueError(f"environment: {name} is not set, but the document has a group")
        return value

    port = text(PORT)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"environment: {PORT}={port} is not a port")
    address = text("SLIPWAY_GROUP_ADDRESS")
    try:
        fabric_address = address_of(group.interface) if group.interface else address
    except OSError as error:
        raise ValueError(f"group.{error.strerror}") from error
    return Meeting(
        name=text("NOMAD_JOB_ID"),
        place=place_of(own_index(environment), group.members),
        allocation=text("NOMAD_ALLOC_ID"),
        address=address,
        port=int(port),
        fabric_address=fabric_address,
        members_file=Path(text("SLIPWAY_MEMBERS")),
        silence_s=group.silence_s,
    )


def member_environment(group: Group, fabric_address: str) -> dict[str, str]:
    """The variables of this member's engine. Where the plan does not state the fabric's interface,
    it is the one with the host's address."""
    interface = group.interface or interface_with(fabric_address)
    stated = {
        name: value.replace(INTERFACE, interface)
        for name, value in group.environment.items()
        if interface or INTERFACE not in value
    }
    return {**stated, "VLLM_HOST_IP": fabric_address}


def task_folder(environment: Mapping[str, str]) -> Path:
    """Of Nomad, for as long as the allocation lives."""
    return Path(environment.get("NOMAD_TASK_DIR", "."))
