"""Reads a secret of AWS Secrets Manager with the role of this instance."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

from .metadata import Credentials
from .refusal import refusal
from .signing import signed_headers

TIMEOUT_S = 20


def secret(name: str, region: str, credentials: Credentials) -> str:
    """The current value. OSError if AWS cannot be reached; RefusedError with what it said.

    AWS_ENDPOINT_URL replaces AWS's own address, as for its SDKs.
    """
    base = os.environ.get("AWS_ENDPOINT_URL", f"https://secretsmanager.{region}.amazonaws.com")
    url, body = f"{base.rstrip('/')}/", json.dumps({"SecretId": name}).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "secretsmanager.GetSecretValue",
    }
    signed = signed_headers(
        credentials,
        region=region,
        service="secretsmanager",
        method="POST",
        url=url,
        body=body,
        headers=headers,
    )
    request = urllib.request.Request(  # noqa: S310  (AWS, or who is told to play it)
        url, data=body, headers=signed, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return str(json.load(answer)["SecretString"])
    except urllib.error.HTTPError as error:
        raise refusal("", error) from None
