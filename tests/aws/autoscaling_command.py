"""Plays three commands of the AWS command line for the group of a pool, with their documented
arguments only:

aws --region R autoscaling describe-auto-scaling-groups --auto-scaling-group-names G --output json
aws --region R autoscaling describe-instance-refreshes --auto-scaling-group-name G
    [--instance-refresh-ids ID] --output json
aws --region R autoscaling start-instance-refresh --auto-scaling-group-name G --preferences JSON
    --output json

Members are checked against AWS's own model of the service. Environment: BED_FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import botocore.session
from botocore.validate import ParamValidator
from group_file import changing, group_file, read

TEMPLATE = "lt-0123456789abcdef0"
GOES_ON = ("Pending", "InProgress")


def main() -> int:
    top = argparse.ArgumentParser("aws", allow_abbrev=False)
    top.add_argument("--region", required=True)
    actions = top.add_subparsers(dest="service", required=True).add_parser("autoscaling")
    found = actions.add_subparsers(dest="action", required=True)
    for action, name in (
        ("describe-auto-scaling-groups", "--auto-scaling-group-names"),
        ("describe-instance-refreshes", "--auto-scaling-group-name"),
        ("start-instance-refresh", "--auto-scaling-group-name"),
    ):
        parser = found.add_parser(action, allow_abbrev=False)
        parser.add_argument(name, dest="group", required=True)
        parser.add_argument("--output", choices=["json"], required=True)
        if action == "describe-instance-refreshes":
            parser.add_argument("--instance-refresh-ids")
        if action == "start-instance-refresh":
            parser.add_argument("--preferences", type=json.loads, required=True)
    asked = top.parse_args()
    file = group_file(Path(os.environ["BED_FOLDER"]), asked.group)
    if asked.action == "describe-auto-scaling-groups":
        return answer({"AutoScalingGroups": [described(asked.group, read(file))]})
    if asked.action == "describe-instance-refreshes":
        wanted = asked.instance_refresh_ids
        found = [
            each
            for each in reversed(read(file)["refreshes"])
            if wanted in (None, each["InstanceRefreshId"])
        ]
        return answer({"InstanceRefreshes": found})
    return start(file, asked.group, asked.preferences)


def described(name: str, group: dict[str, Any]) -> dict[str, Any]:
    template = {"LaunchTemplateId": TEMPLATE, "LaunchTemplateName": name}
    instances = [
        {
            "InstanceId": each["instance"],
            "LifecycleState": each["state"],
            "LaunchTemplate": {**template, "Version": str(each["version"])},
        }
        for each in group["instances"]
    ]
    return {
        "AutoScalingGroupName": name,
        "LaunchTemplate": {**template, "Version": str(group["version"])},
        "Instances": instances,
    }


def start(file: Path, name: str, preferences: dict[str, Any]) -> int:
    model = botocore.session.get_session().get_service_model("autoscaling")
    shape = model.operation_model("StartInstanceRefresh").input_shape
    members = {"AutoScalingGroupName": name, "Preferences": preferences}
    report = ParamValidator().validate(members, shape)
    if report.has_errors():
        return refused("ValidationError", report.generate_report())
    with changing(file) as group:
        if any(each["Status"] in GOES_ON for each in group["refreshes"]):
            return refused(
                "InstanceRefreshInProgress", "An Instance Refresh is already in progress"
            )
        number = f"08b91cf7-8fa6-48af-b6a6-{len(group['refreshes']):012d}"
        group["refreshes"].append(
            {"InstanceRefreshId": number, "Status": "Pending", "Preferences": preferences}
        )
    return answer({"InstanceRefreshId": number})


def answer(document: dict[str, Any]) -> int:
    print(json.dumps(document, indent=4))
    return 0


def refused(code: str, said: str) -> int:
    sys.stderr.write(f"\nAn error occurred ({code}) when calling the operation: {said}\n")
    return 254


if __name__ == "__main__":
    sys.exit(main())
