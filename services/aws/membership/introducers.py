"""Asks the introducers, with a request that AWS can confirm: for an introduction, and later for
what only they may do for this node (services/aws/introducer)."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from instance import metadata
from instance.signing import signed_headers
from program.errors import HostError
from program.folders import make_private_folder, write_private
from program.forwards import Way
from program.http_json import Api, ApiError

from membership.document import Boot

# As services/aws/introducer/claims.py expects them.
BODY = b"Action=GetCallerIdentity&Version=2011-06-15"
ENVIRONMENT, REQUEST = "X-Slipway-Environment", "X-Slipway-Request"
INTRODUCTION_PATH, REQUEST_PATH = "/v1/introduction", "/v1/request"
# Requests: work moves away where there is room for it; all of it ends at once; Nomad forgets the
# node; it has these artifacts (followed by their digest).
VACATE, EVACUATE, FORGET, HAS = "vacate", "evacuate", "forget", "has"


def claim(boot: Boot, request: str = "") -> dict[str, object]:
    """What AWS signs for nobody else: this instance, now, for this environment and request."""
    sts = os.environ.get("AWS_ENDPOINT_URL", boot.sts)
    headers = signed_headers(
        metadata.credentials(),
        region=boot.region,
        service="sts",
        method="POST",
        url=f"{sts.rstrip('/')}/",
        body=BODY,
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            ENVIRONMENT: boot.environment,
            **({REQUEST: request} if request else {}),
        },
    )
    headers["Host"] = urlsplit(sts).netloc
    return {"pool": boot.pool, "headers": headers}


def introduced(boot: Boot, certificate: Mapping[str, str]) -> tuple[str, str]:
    """The name that this node has, and its introduction. Raises HostError."""
    answer = _answer(boot, certificate, INTRODUCTION_PATH, "")
    return str(answer["host"]), str(answer["introduction"])


def requested(boot: Boot, certificate: Mapping[str, str], request: str) -> None:
    """Has an introducer do something for this node. Raises HostError."""
    _answer(boot, certificate, REQUEST_PATH, request)


def _answer(
    boot: Boot, certificate: Mapping[str, str], path: str, request: str
) -> Mapping[str, Any]:
    """Of the first introducer that answers. Raises HostError with what each has said."""
    said: list[str] = []
    make_private_folder(boot.folders.scratch)
    with tempfile.TemporaryDirectory(dir=boot.folders.scratch) as folder:
        for name, content in certificate.items():
            write_private(Path(folder) / name, content)
        # In any order, so that a group that starts does not ask one of them alone.
        for address in random.sample(boot.introducers, len(boot.introducers)):
            way = Way(address, boot.introducers_name)
            try:
                answer = Api(address, certificate=Path(folder), way=way).post(
                    path, claim(boot, request)
                )
            except (ApiError, OSError) as error:
                said.append(str(error))
            else:
                found: Mapping[str, Any] = answer
                return found
    raise HostError(f"no introducer helps this node: {'; '.join(said)}")
