"""What a fixed host's resources give AWS, put into moto: its secret, and its role with what it may
read. Run by the program of fixed_hosts_target.py in the environment of services/aws's tests."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from botocore.exceptions import ClientError
from cloud import client


def main() -> None:
    host, role = os.environ["BED_HOST"], os.environ["BED_ROLE"]
    secrets, iam = client("secretsmanager"), client("iam")
    name, secret = os.environ["BED_SECRET"], sys.stdin.read()
    try:
        secrets.create_secret(Name=name, SecretString=secret)
    except ClientError:  # of an earlier `up`
        secrets.put_secret_value(SecretId=name, SecretString=secret)
    with suppress(ClientError):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=os.environ["BED_TRUST"])
    policy = os.environ["BED_POLICY"]
    iam.put_role_policy(RoleName=role, PolicyName="own-secret", PolicyDocument=policy)
    file = Path(os.environ["BED_FOLDER"]) / f"{host}.user-data"
    partial = file.with_suffix(".partial")
    partial.write_text(os.environ["BED_USER_DATA"])
    partial.replace(file)


if __name__ == "__main__":
    main()
