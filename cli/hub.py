"""What the model hub, or the mirror in HF_ENDPOINT, says of a model: its commit and config.json."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from cli.errors import WRONG_INPUT, CliError

HUB = "https://huggingface.co"
TIMEOUT_S = 10
CONFIG = "config.json"
BY_HAND = (
    "give --revision COMMIT (on the model's page: Files and versions, then History), or --s3 URL"
    " with the folder of a bucket"
)


class HubUnreachableError(CliError):
    """Nothing is known of the model, not even whether it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A model's newest commit, and the text of its config.json there."""

    commit: str
    config: str


def mirror(environ: Mapping[str, str] = os.environ) -> str | None:
    """The address that is asked instead of the hub's own, if any."""
    return environ.get("HF_ENDPOINT", "").rstrip("/") or None


def published(name: str, environ: Mapping[str, str] = os.environ) -> Published:
    """Raises CliError where the hub cannot be reached, or does not show the model to this user."""
    hub = mirror(environ) or HUB
    token = environ.get("HF_TOKEN", "")
    path = quote(name)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token and may_have_token(hub) else {}
        with httpx.Client(
            timeout=TIMEOUT_S, follow_redirects=True, base_url=hub, headers=headers
        ) as client:
            info = _shown(client.get(f"/api/models/{path}"), name, hub)
            commit = _commit(info.json())
            config = _shown(client.get(f"/{path}/resolve/{commit}/{CONFIG}"), name, hub)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        unreached = isinstance(error, httpx.TransportError)
        failed = "cannot be reached" if unreached else "gives no answer that can be used"
        raise HubUnreachableError(
            f"{hub} {failed}, so the commit of {name} is not known"
            f" ({str(error) or type(error).__name__})",
            fix=BY_HAND,
            exit_code=WRONG_INPUT,
        ) from None
    return Published(commit=commit, config=config.text)


def _commit(answer: Any) -> str:
    """ValueError if the answer has none."""
    commit = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(commit, str) or re.fullmatch("[0-9a-f]{40}", commit) is None:
        raise ValueError("its answer has no commit")
    return commit


def _shown(response: httpx.Response, name: str, hub: str) -> httpx.Response:
    if response.is_success:
        return response
    denied = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    if response.status_code in denied and "/resolve/" in response.url.path:
        raise CliError(
            f"{name} is gated, and this account has no access to it",
            fix=f"accept its terms on {hub}/{name}, and set HF_TOKEN to a token of that account",
            exit_code=WRONG_INPUT,
        )
    if response.status_code in {*denied, HTTPStatus.NOT_FOUND}:
        raise CliError(
            f"{hub} shows this account no model {name} with a {CONFIG}",
            fix="correct the name; for a private model set HF_TOKEN to a token that may read it",
            exit_code=WRONG_INPUT,
        )
    raise CliError(
        f"{hub} answers HTTP {response.status_code} about {name}",
        fix=f"try again later, or {BY_HAND}",
        exit_code=WRONG_INPUT,
    )


def may_have_token(hub: str) -> bool:
    """Whether nobody else can read a token that is sent there."""
    url = urlsplit(hub)
    try:
        return url.scheme == "https" or ip_address(url.hostname or "").is_loopback
    except ValueError:
        return url.hostname == "localhost"
