"""Roles in the bed's AWS:

    python role.py assume ROLE SESSION      prints credentials as an instance's metadata has them
    python role.py copy ROLE OTHER          makes OTHER, which may do what ROLE may

Run by the environment of services/aws's tests.
"""

from __future__ import annotations

import json
import sys

from cloud import client, give_role


def assume(role: str, session: str) -> None:
    arn = f"arn:aws:iam::123456789012:role/{role}"
    found = client("sts").assume_role(RoleArn=arn, RoleSessionName=session)["Credentials"]
    said = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": found["AccessKeyId"],
        "SecretAccessKey": found["SecretAccessKey"],
        "Token": found["SessionToken"],
        "Expiration": found["Expiration"].strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    print(json.dumps(said))


def copy(role: str, other: str) -> None:
    iam = client("iam")
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        found = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        give_role(other, name, json.dumps(found))


def main() -> None:
    command, *arguments = sys.argv[1:]
    {"assume": assume, "copy": copy}[command](*arguments)


if __name__ == "__main__":
    main()
