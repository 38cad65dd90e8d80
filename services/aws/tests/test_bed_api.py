"""AWS as the test bed plays it (tests/aws/api.py): roles are judged by what they ask for, and
lifecycle actions are answered as AWS does."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import Config
from botocore.exceptions import ClientError
from conftest import HANG_S, REGION
from instance.metadata import Credentials
from instance.objects import Bucket
from instance.refusal import RefusedError
from instance.secrets import secret
from instance.signing import signed_headers

PLAYED = Path(__file__).parents[3] / "tests" / "aws"
ACCOUNT, BUCKET, GROUP, HOOK = "123456789012", "stored", "slipway-fleet-l4", "leaving"
SESSION, NUMBERS = "i-0123456789abcdef0", itertools.count()
OWN, OTHERS = "slipway/fleet/pools/l4", "slipway/fleet/pools/h100"
LIFECYCLE = ("autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat")


def allow(action: object, resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource}


POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        allow(
            "secretsmanager:GetSecretValue",
            f"arn:aws:secretsmanager:{REGION}:*:secret:{OWN}-??????",
        ),
        allow("s3:GetObject", f"arn:aws:s3:::{BUCKET}/fleet/*"),
        allow(
            list(LIFECYCLE),
            f"arn:aws:autoscaling:{REGION}:*:autoScalingGroup:*:autoScalingGroupName/{GROUP}",
        ),
    ],
}
TEMPLATE = {"InstanceType": "m7i.large", "ImageId": "ami-0123456789abcdef0"}


@dataclass(frozen=True)
class Site:
    """`operator` and `role`, a pool's, make clients; `instance` is a new one for each test."""

    address: str
    operator: Callable[[str], Any]
    role: Callable[[str], Any]
    credentials: Credentials
    instance: str = ""

    def wait_at_hook(self, group: str = GROUP) -> None:
        document = {"instance": self.instance, "group": group, "hook": HOOK}
        request = urllib.request.Request(
            f"{self.address}/bed/lifecycle",
            data=json.dumps(document).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=HANG_S):
            pass

    def said(self) -> list[dict[str, str]]:
        with urllib.request.urlopen(f"{self.address}/bed/lifecycle", timeout=HANG_S) as answer:
            return [each for each in json.load(answer) if each["instance"] == self.instance]


def clients(address: str, **keys: str) -> Callable[[str], Any]:
    config = Config(s3={"addressing_style": "path"})
    return lambda service: boto3.client(
        service, region_name=REGION, endpoint_url=address, config=config, **keys
    )


@pytest.fixture(scope="module")
def played() -> Iterator[Site]:
    command = [sys.executable, str(PLAYED / "api.py"), "127.0.0.1", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        operator = clients(address, aws_access_key_id="operator", aws_secret_access_key="operator")
        fill(operator)
        role = operator("sts").assume_role(
            RoleArn=f"arn:aws:iam::{ACCOUNT}:role/l4", RoleSessionName=SESSION
        )["Credentials"]
        keys = (role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        of_role = clients(address, **dict(zip(names, keys, strict=True)))
        yield Site(address, operator, of_role, Credentials(*keys))
        process.kill()


@pytest.fixture
def site(played: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("AWS_ENDPOINT_URL", played.address)
    return replace(played, instance=f"i-{next(NUMBERS):017x}")


def fill(operator: Callable[[str], Any]) -> None:
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    operator("iam").create_role(RoleName="l4", AssumeRolePolicyDocument=trust)
    operator("iam").put_role_policy(
        RoleName="l4", PolicyName="own", PolicyDocument=json.dumps(POLICY)
    )
    for name in (OWN, OTHERS):
        operator("secretsmanager").create_secret(Name=name, SecretString=f"of {name}")
    operator("s3").create_bucket(Bucket=BUCKET)
    for key in ("fleet/boot/l4.json", "other/boot/l4.json"):
        operator("s3").put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    for group in (GROUP, "slipway-fleet-h100"):
        operator("ec2").create_launch_template(
            LaunchTemplateName=group, LaunchTemplateData=TEMPLATE
        )
        operator("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=group,
            LaunchTemplate={"LaunchTemplateName": group, "Version": "$Latest"},
            MinSize=0,
            MaxSize=1,
            AvailabilityZones=[f"{REGION}a"],
        )


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """AWS's code and words, as its own client reads them."""
    with pytest.raises(ClientError) as found:
        call()
    error = found.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_role_reads_its_own_secret_and_no_other_pools(site: Site) -> None:
    assert secret(OWN, REGION, site.credentials) == f"of {OWN}"
    with pytest.raises(RefusedError) as found:
        secret(OTHERS, REGION, site.credentials)
    assert "is not authorized to perform: secretsmanager:GetSecretValue" in str(found.value)
    assert f":secret:{OTHERS}-" in str(found.value)
    secrets = site.role("secretsmanager")
    code, _ = refused(lambda: secrets.get_secret_value(SecretId=OTHERS))
    assert code == "AccessDeniedException"
    code, _ = refused(lambda: secrets.put_secret_value(SecretId=OWN, SecretString="x"))
    assert code == "AccessDeniedException"


def test_a_role_reads_the_objects_below_its_prefix(site: Site) -> None:
    bucket = Bucket(BUCKET, REGION, site.credentials)
    assert bucket.opened("fleet/boot/l4.json").read() == b"fleet/boot/l4.json"
    with pytest.raises(RefusedError, match="AccessDenied"):
        bucket.opened("other/boot/l4.json")
    s3 = site.role("s3")
    stored = {"Bucket": BUCKET, "Key": "fleet/boot/l4.json"}
    assert s3.get_object(**stored)["Body"].read() == b"fleet/boot/l4.json"
    for call in (
        lambda: s3.put_object(**stored, Body=b"x"),
        lambda: s3.list_objects_v2(Bucket=BUCKET),
    ):
        assert refused(call)[0] == "AccessDenied"


def test_an_object_that_is_not_there_is_denied_to_who_may_not_list(site: Site) -> None:
    with pytest.raises(RefusedError, match="not authorized to perform: s3:ListBucket"):
        Bucket(BUCKET, REGION, site.credentials).opened("fleet/boot/h100.json")


def test_a_role_may_always_ask_who_it_is_and_nothing_else_of_other_services(site: Site) -> None:
    found = site.role("sts").get_caller_identity()
    assert found["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/l4/{SESSION}"
    denied = refused(lambda: site.role("iam").list_roles())
    assert denied[0] == "AccessDenied"


def test_a_role_that_does_not_exist_may_do_nothing(site: Site) -> None:
    found = site.operator("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/gone", RoleSessionName=SESSION
    )["Credentials"]
    keys = Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
    with pytest.raises(RefusedError, match="AccessDenied"):
        secret(OWN, REGION, keys)


def test_a_request_with_another_secret_key_is_refused(site: Site) -> None:
    forged = Credentials(site.credentials.access_key, "another", site.credentials.token)
    with pytest.raises(RefusedError, match="is not signed by"):
        secret(OWN, REGION, forged)


def heartbeat(site: Site, **others: str) -> Any:
    wanted = {"LifecycleHookName": HOOK, "AutoScalingGroupName": GROUP, "InstanceId": site.instance}
    return site.role("autoscaling").record_lifecycle_action_heartbeat(**{**wanted, **others})


def complete(site: Site, result: str = "CONTINUE") -> Any:
    return site.role("autoscaling").complete_lifecycle_action(
        LifecycleHookName=HOOK,
        AutoScalingGroupName=GROUP,
        InstanceId=site.instance,
        LifecycleActionResult=result,
    )


def not_active(site: Site) -> tuple[str, str]:
    said = f"No active Lifecycle Action found with instance ID {site.instance}"
    return ("ValidationError", said)


def test_a_heartbeat_without_an_open_action_is_refused(site: Site) -> None:
    assert refused(lambda: heartbeat(site)) == not_active(site)
    assert site.said() == []


def test_a_completed_action_is_gone(site: Site) -> None:
    site.wait_at_hook()
    heartbeat(site)
    complete(site)
    assert refused(lambda: complete(site)) == not_active(site)
    assert refused(lambda: heartbeat(site)) == not_active(site)
    place = {"instance": site.instance, "group": GROUP, "hook": HOOK}
    assert site.said() == [
        {**place, "call": "heartbeat", "result": ""},
        {**place, "call": "completion", "result": "CONTINUE"},
    ]


def test_an_action_of_another_group_is_denied_and_one_of_another_hook_is_not_active(
    site: Site,
) -> None:
    site.wait_at_hook()
    code, _ = refused(lambda: heartbeat(site, AutoScalingGroupName="slipway-fleet-h100"))
    assert code == "AccessDenied"
    assert refused(lambda: heartbeat(site, LifecycleHookName="starting")) == not_active(site)


def test_a_result_that_aws_does_not_know_is_refused(site: Site) -> None:
    site.wait_at_hook()
    assert refused(lambda: complete(site, "DONE"))[0] == "ValidationError"
    complete(site, "ABANDON")


CALL = {
    "Action": "CompleteLifecycleAction",
    "Version": "2011-01-01",
    "LifecycleHookName": HOOK,
    "AutoScalingGroupName": GROUP,
    "LifecycleActionResult": "CONTINUE",
}


def post(site: Site, form: dict[str, str]) -> tuple[int, str]:
    """As a program signs and sends it that has not AWS's model."""
    url, body = f"{site.address}/", urllib.parse.urlencode(form).encode()
    headers = signed_headers(
        site.credentials,
        region=REGION,
        service="autoscaling",
        method="POST",
        url=url,
        body=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    try:
        request = urllib.request.Request(url, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


WRONG = {
    "a member is missing": {"LifecycleHookName": ""},
    "a member has another name": {"LifecycleActionResult": "", "Result": "CONTINUE"},
    "nobody says which instance": {"InstanceId": ""},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_is_refused_if(site: Site, case: str) -> None:
    site.wait_at_hook()
    right = {**CALL, "InstanceId": site.instance}
    form = {key: value for key, value in {**right, **WRONG[case]}.items() if value}
    status, said = post(site, form)
    assert (status, "<Code>ValidationError</Code>" in said) == (400, True)
    assert post(site, right)[0] == 200


def test_what_the_bed_puts_there_for_a_pool_is_enough_for_its_role(
    site: Site, tmp_path: Path
) -> None:
    group, role = "slipway-bed-cpu", "slipway-bed-pool-cpu"
    policy = json.loads(json.dumps(POLICY).replace(GROUP, group))
    variables = {
        "BED_SECRET": "slipway/bed/pools/cpu",
        "BED_ROLES": json.dumps({role: policy}),
        "BED_GROUP": group,
        "BED_INSTANCE": "m7i.large",
        "BED_NODES_MAX": "5",
        "BED_BUCKET": BUCKET,
        "BED_KEY": "fleet/boot/cpu.json",
        "BED_DOCUMENT": "{}",
        "BED_POOL": "cpu",
        "BED_FOLDER": str(tmp_path),
        "BED_USER_DATA": "#cloud-config",
    }
    for _ in range(2):  # as a second `up` does
        subprocess.run(
            [sys.executable, str(PLAYED / "cloud.py")],
            env={**os.environ, **variables},
            input="a secret",
            text=True,
            check=True,
            timeout=HANG_S,
        )
    site.wait_at_hook(group)
    done = subprocess.run(
        [sys.executable, str(PLAYED / "role.py"), "assume", role, site.instance],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    found = json.loads(done.stdout)
    keys = Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
    assert Bucket(BUCKET, REGION, keys).opened("fleet/boot/cpu.json").read() == b"{}"
    call = {**CALL, "AutoScalingGroupName": group, "InstanceId": site.instance}
    assert post(replace(site, credentials=keys), call)[0] == 200
    assert [each["result"] for each in site.said()] == ["CONTINUE"]
