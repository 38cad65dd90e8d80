"""Asks the introducers for an introduction, with a request that AWS can confirm."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from instance import metadata
from instance.signing import signed_headers
from program.errors import HostError
from program.folders import make_private_folder, write_private
from program.forwards import Way
from program.http_json import Api, ApiError

from joining.document import Boot

# As services/aws/introducer/claims.py expects them.
BODY = b"Action=GetCallerIdentity&Version=2011-06-15"
ENVIRONMENT = "X-Slipway-Environment"
PATH = "/v1/introduction"


def claim(boot: Boot) -> dict[str, object]:
    """What AWS signs for nobody else: this instance, now, for this environment."""
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
        },
    )
    headers["Host"] = urlsplit(sts).netloc
    return {"pool": boot.pool, "headers": headers}


def introduced(boot: Boot, certificate: Mapping[str, str]) -> tuple[str, str]:
    """The name that this node has, and its introduction, from the first introducer that answers.
    Raises HostError with what each has said."""
    said: list[str] = []
    make_private_folder(boot.folders.scratch)
    with tempfile.TemporaryDirectory(dir=boot.folders.scratch) as folder:
        for name, content in certificate.items():
            write_private(Path(folder) / name, content)
        # In any order, so that a group that starts does not ask one of them alone.
        for address in random.sample(boot.introducers, len(boot.introducers)):
            way = Way(address, boot.introducers_name)
            try:
                answer = Api(address, certificate=Path(folder), way=way).post(PATH, claim(boot))
            except (ApiError, OSError) as error:
                said.append(str(error))
            else:
                return str(answer["host"]), str(answer["introduction"])
    raise HostError(f"nobody introduces this node: {'; '.join(said)}")
