"""Signatures are those of AWS's own client."""

from __future__ import annotations

import datetime
import json
from unittest import mock

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as OfBotocore
from conftest import REGION
from instance.metadata import Credentials
from instance.signing import signed_headers

NOW = datetime.datetime(2026, 11, 28, 12, 30, 1, tzinfo=datetime.timezone.utc)
CREDENTIALS = Credentials(access_key="AKIDEXAMPLE", secret_key="a secret", token="a token")
REQUESTS = [
    ("POST", "https://secretsmanager.us-east-1.amazonaws.com/", b'{"SecretId": "x"}', {}),
    ("POST", "http://127.0.0.1:5000/", b"", {"X-Amz-Target": "secretsmanager.GetSecretValue"}),
    ("POST", "https://sts.us-east-1.amazonaws.com/", b"Action=GetCallerIdentity", {"X-Own": " a "}),
    ("GET", "https://bucket.s3.us-east-1.amazonaws.com/boot/0123.json", b"", {}),
]


@pytest.mark.parametrize(("method", "url", "body", "headers"), REQUESTS)
@pytest.mark.parametrize("service", ["secretsmanager", "sts"])
def test_a_request_is_signed_as_botocore_signs_it(
    method: str, url: str, body: bytes, headers: dict[str, str], service: str
) -> None:
    ours = signed_headers(
        CREDENTIALS,
        region=REGION,
        service=service,
        method=method,
        url=url,
        body=body,
        headers=headers,
        now=NOW,
    )
    signed = {key: value for key, value in ours.items() if key.lower() not in SET_BY_BOTOCORE}
    theirs = AWSRequest(method=method, url=url, data=body, headers=signed)
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW):
        keys = OfBotocore("AKIDEXAMPLE", "a secret", "a token")
        SigV4Auth(keys, service, REGION).add_auth(theirs)
    assert theirs.headers["Authorization"] == ours["Authorization"]


SET_BY_BOTOCORE = ("authorization", "host", "x-amz-date", "x-amz-security-token")


def test_credentials_are_not_shown() -> None:
    shown = json.dumps([repr(CREDENTIALS), str(CREDENTIALS)])
    assert "a secret" not in shown
    assert "a token" not in shown
