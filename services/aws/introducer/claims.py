"""What a new node claims, and what of it can be told before AWS is asked. Pure.

A node signs a request for AWS's sts:GetCallerIdentity and sends the signature. Whoever has it can
have AWS answer this one request, and nothing else: so AWS tells the introducer who has signed.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

SERVICE = "sts"
BODY = b"Action=GetCallerIdentity&Version=2011-06-15"
ENVIRONMENT, REQUEST = "x-slipway-environment", "x-slipway-request"
# Those that a node signs. The body's digest is one, so that nothing else can be asked for.
SIGNED = (
    "content-type",
    "host",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    ENVIRONMENT,
)
# A node that has joined signs what it wants, too.
SIGNED_WITH_REQUEST = (*SIGNED, REQUEST)
VALID_S = 300  # AWS's own limit is 15 minutes
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/(?P<day>\d{8})/(?P<region>[a-z0-9-]+)"
    r"/(?P<service>[a-z0-9-]+)/aws4_request, ?SignedHeaders=(?P<names>[a-z0-9;-]+),"
    r" ?Signature=[0-9a-f]{64}"
)
_DATE = "%Y%m%dT%H%M%SZ"


class RefusedError(Exception):
    """The claim is refused; says why, and contains nothing of the signature."""


@dataclass(frozen=True)
class Claim:
    """`pool`: which pool the node says it is of; `headers`: of its signed request, in lower
    case."""

    pool: str
    headers: Mapping[str, str]


def read_claim(document: object) -> Claim:
    """Raises RefusedError for anything but pool and headers as texts."""
    if not isinstance(document, dict):
        raise RefusedError("the claim is not a JSON object")
    pool, headers = document.get("pool"), document.get("headers")
    if not isinstance(pool, str) or not isinstance(headers, dict):
        raise RefusedError("the claim has no pool, or no headers")
    if not all(isinstance(value, str) for value in headers.values()):
        raise RefusedError("a header of the claim is not a text")
    return Claim(pool, {str(name).lower(): value for name, value in headers.items()})


def must_be_for_us(
    claim: Claim,
    *,
    signed: tuple[str, ...],
    environment: str,
    region: str,
    host: str,
    now: datetime.datetime,
) -> None:
    """Raises RefusedError for a request that was signed for another environment, service, region or
    time, or whose header for that is not signed. `host` is that of STS; `signed` are the names of
    the headers, no others."""
    found = _AUTHORIZATION.fullmatch(claim.headers.get("authorization", ""))
    if found is None:
        raise RefusedError("the request is not signed as AWS's are (version 4)")
    if (found["service"], found["region"]) != (SERVICE, region):
        raise RefusedError(f"the request is signed for {found['service']} in {found['region']}")
    names = found["names"].split(";")
    missing = [name for name in signed if name not in names or name not in claim.headers]
    if missing:
        raise RefusedError(f"the request does not sign {', '.join(missing)}")
    others = [name for name in claim.headers if name not in (*signed, "authorization")]
    if others or len(names) != len(signed):
        raise RefusedError("the request has other headers than a node's")
    if claim.headers["x-amz-content-sha256"] != hashlib.sha256(BODY).hexdigest():
        raise RefusedError("the request is signed for something else than who has signed it")
    if claim.headers[ENVIRONMENT] != environment:
        raise RefusedError(f'the request is signed for environment "{claim.headers[ENVIRONMENT]}"')
    if claim.headers["host"] != host:
        raise RefusedError(f"the request is signed for {claim.headers['host']}")
    _must_be_new(claim.headers["x-amz-date"], now)


def _must_be_new(date: str, now: datetime.datetime) -> None:
    try:
        signed = datetime.datetime.strptime(date, _DATE).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        raise RefusedError("the request has no valid date") from None
    age_s = (now - signed).total_seconds()
    if abs(age_s) > VALID_S:
        raise RefusedError(f"the request was signed {age_s:.0f} s ago; it is valid for {VALID_S} s")
