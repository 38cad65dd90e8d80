"""Lifecycle actions of Auto Scaling groups, which moto lacks: which instances wait at a hook, and
what they have said."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import botocore.session
from botocore.validate import ParamValidator
from moto.autoscaling.models import autoscaling_backends
from permissions import ACCOUNT, RefusedError

CALLS = {"CompleteLifecycleAction": "completion", "RecordLifecycleActionHeartbeat": "heartbeat"}
RESULTS = ("CONTINUE", "ABANDON")  # botocore's model has no enumeration for it
_NOT_MEMBERS = ("Action", "Version")


@dataclass(frozen=True, kw_only=True)
class Said:
    """`result` is that of a completion."""

    call: str  # "completion", "heartbeat"
    instance: str
    group: str
    hook: str
    result: str


class Lifecycle:
    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, str]] = {}  # instance -> its group, and the hook
        self._said: list[Said] = []
        self._lock = threading.Lock()

    def wait(self, instance: str, group: str, hook: str) -> None:
        """The instance is being started or ended, and waits until its action is completed."""
        with self._lock:
            self._waiting[instance] = (group, hook)

    def said(self) -> list[dict[str, str]]:
        """What instances have said, in order."""
        with self._lock:
            return [asdict(each) for each in self._said]

    def answer(self, region: str, form: Mapping[str, str]) -> None:
        """Raises RefusedError in AWS's words."""
        name = form["Action"]
        members = {key: value for key, value in form.items() if key not in _NOT_MEMBERS}
        _must_be_valid(name, region, members)
        said = Said(
            call=CALLS[name],
            instance=members["InstanceId"],
            group=members["AutoScalingGroupName"],
            hook=members["LifecycleHookName"],
            result=members.get("LifecycleActionResult", ""),
        )
        with self._lock:
            if self._waiting.get(said.instance) != (said.group, said.hook):
                raise _invalid(f"No active Lifecycle Action found with instance ID {said.instance}")
            if said.call == "completion":
                del self._waiting[said.instance]
            self._said.append(said)


def _must_be_valid(name: str, region: str, members: Mapping[str, str]) -> None:
    model = botocore.session.get_session().get_service_model("autoscaling")
    found = ParamValidator().validate(dict(members), model.operation_model(name).input_shape)
    if found.has_errors():
        raise _invalid(found.generate_report())
    result = members.get("LifecycleActionResult", RESULTS[0])
    if result not in RESULTS:
        raise _invalid(f"Lifecycle Action Result {result} is not one of {', '.join(RESULTS)}")
    if "InstanceId" not in members:  # a token would do in AWS; nobody here has one
        raise _invalid("Neither an instance ID nor a token was given")
    group = members["AutoScalingGroupName"]
    if group not in autoscaling_backends[ACCOUNT][region].autoscaling_groups:
        raise _invalid(f"AutoScalingGroup name not found - {group}")


def _invalid(message: str) -> RefusedError:
    return RefusedError("ValidationError", message)
