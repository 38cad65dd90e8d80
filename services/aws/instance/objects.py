"""Reads objects of the environment's bucket in S3 with the role of this instance."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import IO

from .metadata import Credentials
from .refusal import refusal
from .signing import signed_headers

TIMEOUT_S = 60


@dataclass(frozen=True)
class Bucket:
    """AWS_ENDPOINT_URL replaces S3's own address, as for AWS's SDKs."""

    name: str
    region: str
    credentials: Credentials

    def opened(self, key: str) -> IO[bytes]:
        """The content, as it comes. `key` has no character that a URL would quote. OSError if S3
        cannot be reached; RefusedError with what it said."""
        url = f"{self._address()}/{key}"
        headers = signed_headers(
            self.credentials, region=self.region, service="s3", method="GET", url=url
        )
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (S3, or who plays it)
        try:
            answer: IO[bytes] = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise refusal(f"{key}: ", error) from None
        return answer

    def _address(self) -> str:
        other = os.environ.get("AWS_ENDPOINT_URL")
        if other:
            return f"{other.rstrip('/')}/{self.name}"
        return f"https://{self.name}.s3.{self.region}.amazonaws.com"
