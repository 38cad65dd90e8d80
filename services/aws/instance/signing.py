"""Signature Version 4 of a request: AWS IAM User Guide, "Create a signed AWS API request"."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from .metadata import Credentials

ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    credentials: Credentials,
    *,
    region: str,
    service: str,
    method: str,
    url: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    now: datetime.datetime | None = None,
) -> dict[str, str]:
    """The headers of a request, all of them signed. `url` has no query, and a path that needs no
    quoting."""
    place, now = urlsplit(url), now or datetime.datetime.now(datetime.timezone.utc)
    content = hashlib.sha256(body).hexdigest()
    sent = {
        **(headers or {}),
        "Host": place.netloc,
        "X-Amz-Content-Sha256": content,
        "X-Amz-Date": now.strftime("%Y%m%dT%H%M%SZ"),
        "X-Amz-Security-Token": credentials.token,
    }
    lower = dict(sorted((name.lower(), value.strip()) for name, value in sent.items()))
    names = ";".join(lower)
    lines = "".join(f"{name}:{value}\n" for name, value in lower.items())
    canonical = "\n".join([method, place.path or "/", "", lines, names, content])
    day = now.strftime("%Y%m%d")
    scope = f"{day}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join([ALGORITHM, sent["X-Amz-Date"], scope, hashed])
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{credentials.access_key}/{scope}"
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return sent
