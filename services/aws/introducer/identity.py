"""Who has signed a request, by AWS's own answer to it."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from introducer.claims import BODY, Claim, RefusedError

TIMEOUT_S = 10
LONGEST_ANSWER = 1 << 16
_NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"
_ARN = re.compile(
    r"arn:aws:sts::(?P<account>\d{12}):assumed-role/(?P<role>[\w+=,.@-]+)/(?P<session>[\w+=,.@-]+)"
)
_INSTANCE = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")


class UnavailableError(Exception):
    """AWS cannot be asked now."""


@dataclass(frozen=True)
class Instance:
    """An instance of a role; EC2 names the session of an instance's role after the instance."""

    account: str
    role: str
    name: str  # "i-0123456789abcdef0"


def ask(sts: str, claim: Claim) -> str:
    """The ARN of who has signed. RefusedError in AWS's words if the signature is wrong;
    UnavailableError if AWS does not answer."""
    request = urllib.request.Request(  # noqa: S310  (STS, or who is told to play it)
        sts, data=BODY, headers=dict(claim.headers), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return _arn(answer.read(LONGEST_ANSWER))
    except urllib.error.HTTPError as error:
        if error.code >= 500 or error.code == 429:
            raise UnavailableError(f"STS answers {error.code}") from None
        raise RefusedError(f"STS refuses the request: {_reason(error)}") from None
    except OSError as error:
        raise UnavailableError(f"STS cannot be reached: {error}") from None


def instance_of(arn: str) -> Instance:
    """Raises RefusedError for anybody else than an instance."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise RefusedError(f"{arn} is not a role")
    if _INSTANCE.fullmatch(found["session"]) is None:
        raise RefusedError(f"{arn} is not an instance")
    return Instance(found["account"], found["role"], found["session"])


def pool_of(instance: Instance, claim: Claim, *, account: str, pools: Mapping[str, str]) -> str:
    """`pools`: the pool of each role. Raises RefusedError for an instance of another account or
    role, and for one that says it is of another pool."""
    if instance.account != account:
        raise RefusedError(f"account {instance.account} is not that of this environment")
    pool = pools.get(instance.role)
    if pool is None:
        raise RefusedError(f"role {instance.role} is not that of a pool")
    if claim.pool != pool:
        raise RefusedError(f"role {instance.role} is that of pool {pool}, not of {claim.pool}")
    return pool


def node_name(pool: str, instance: Instance) -> str:
    """A node's name in both clusters: nobody else ever has it."""
    return f"{pool}-{instance.name.removeprefix('i-')}"


def _arn(content: bytes) -> str:
    try:
        found = ET.fromstring(content).find(f".//{_NAMESPACE}Arn")  # noqa: S314  (AWS's answer)
    except ET.ParseError:
        found = None
    if found is None or not found.text:
        raise UnavailableError("STS has answered something else")
    return found.text


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read(LONGEST_ANSWER).decode(errors="replace")
    code = re.search(r"<Code>([A-Za-z]+)</Code>", text)
    return code[1] if code else str(error.code)
