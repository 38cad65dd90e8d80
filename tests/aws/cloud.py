"""What a pool's resources give AWS, put into moto: its secret, its boot document, its role. Run by
the program of bed_target.py in the environment of services/aws's tests."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

REGION = "us-east-1"


def client(service: str) -> object:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        aws_access_key_id="operator",
        aws_secret_access_key="operator",
    )


def main() -> None:
    name, secret = os.environ["BED_SECRET"], sys.stdin.read()
    secrets, iam, s3 = client("secretsmanager"), client("iam"), client("s3")
    try:
        secrets.create_secret(Name=name, SecretString=secret)
    except ClientError:
        secrets.put_secret_value(SecretId=name, SecretString=secret)
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    with suppress(ClientError):  # of an earlier `up`
        iam.create_role(RoleName=os.environ["BED_ROLE"], AssumeRolePolicyDocument=trust)
    s3.put_object(
        Bucket=os.environ["BED_BUCKET"],
        Key=os.environ["BED_KEY"],
        Body=os.environ["BED_DOCUMENT"].encode(),
    )
    folder = Path(os.environ["BED_FOLDER"])
    partial = folder / f"{os.environ['BED_POOL']}.partial"
    partial.write_text(os.environ["BED_USER_DATA"])
    partial.replace(folder / f"{os.environ['BED_POOL']}.user-data")


if __name__ == "__main__":
    main()
