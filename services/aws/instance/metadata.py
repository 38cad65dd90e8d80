"""The instance metadata service (IMDSv2): who this instance is, and its role's credentials.

Amazon EC2 User Guide, "Access instance metadata for an EC2 instance".
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass, field

# AWS_EC2_METADATA_SERVICE_ENDPOINT replaces it, as for AWS's own SDKs.
ENDPOINT = "http://169.254.169.254"
TOKEN_VALID_S = 60
TIMEOUT_S = 5
NOT_FOUND = 404
# The service is on this machine: a proxy of the environment must not be asked for it.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Credentials:
    """A role's, valid for some hours."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(repr=False)


def credentials() -> Credentials:
    """Those of the instance's role. OSError while it has none: AWS needs some seconds to pass a new
    role on to an instance."""
    role = text("iam/security-credentials/").split()[0]
    found = json.loads(text(f"iam/security-credentials/{role}"))
    return Credentials(
        access_key=found["AccessKeyId"], secret_key=found["SecretAccessKey"], token=found["Token"]
    )


def account() -> str:
    """AWS's number of the account that the instance belongs to."""
    headers = {"X-aws-ec2-metadata-token": _session()}
    found = json.loads(_answer("GET", "dynamic/instance-identity/document", headers))
    return str(found["accountId"])


def text(path: str) -> str:
    """The metadata at a path below latest/meta-data/. OSError if there is none."""
    headers = {"X-aws-ec2-metadata-token": _session()}
    return _answer("GET", f"meta-data/{path}", headers)


def text_or_none(path: str) -> str | None:
    """As `text`; None if there is nothing at the path."""
    try:
        return text(path)
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return None
        raise


def _session() -> str:
    return _answer("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_VALID_S)})


def _answer(method: str, path: str, headers: dict[str, str]) -> str:
    endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", ENDPOINT).rstrip("/")
    request = urllib.request.Request(  # noqa: S310  (this machine)
        f"{endpoint}/latest/{path}", method=method, headers=headers
    )
    with _direct.open(request, timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())
