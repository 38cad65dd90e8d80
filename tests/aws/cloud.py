"""What a pool's resources give AWS, put into moto: its secret, its boot document, roles with their
policies, its group. Run by the program of bed_target.py in the environment of services/aws's tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError
from group_file import changing, group_file

REGION = "us-east-1"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


def client(service: str) -> Any:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        aws_access_key_id="operator",
        aws_secret_access_key="operator",
    )


def put_secret(name: str, secret: str) -> None:
    secrets = client("secretsmanager")
    try:
        secrets.create_secret(Name=name, SecretString=secret)
    except ClientError:
        secrets.put_secret_value(SecretId=name, SecretString=secret)


def give_role(role: str, name: str, policy: str) -> None:
    """An inline policy, for a role that this may make."""
    iam = client("iam")
    with suppress(ClientError):  # of an earlier `up`
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=policy)


def make_group(name: str, instance: str, most: int) -> None:
    """Empty: hosts of the bed are its instances, and moto knows nothing of them."""
    with suppress(ClientError):  # of an earlier `up`
        client("ec2").create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"InstanceType": instance, "ImageId": "ami-0123456789abcdef0"},
        )
    with suppress(ClientError):
        client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
            MinSize=0,
            MaxSize=most,
            DesiredCapacity=0,
            AvailabilityZones=[f"{REGION}a"],
        )


def main() -> None:
    given = os.environ
    put_secret(given["BED_SECRET"], sys.stdin.read())
    for role, policy in json.loads(given["BED_ROLES"]).items():
        give_role(role, "own", json.dumps(policy))
    make_group(given["BED_GROUP"], given["BED_INSTANCE"], int(given["BED_NODES_MAX"]))
    client("s3").put_object(
        Bucket=given["BED_BUCKET"], Key=given["BED_KEY"], Body=given["BED_DOCUMENT"].encode()
    )
    folder = Path(given["BED_FOLDER"])
    partial = folder / f"{given['BED_POOL']}.partial"
    partial.write_text(given["BED_USER_DATA"])
    partial.replace(folder / f"{given['BED_POOL']}.user-data")
    with changing(group_file(folder, given["BED_GROUP"])) as group:
        digest = hashlib.sha256(given["BED_USER_DATA"].encode()).hexdigest()
        if group["user_data"] != digest:
            group["user_data"] = digest
            group["version"] += 1


if __name__ == "__main__":
    main()
