#!/usr/bin/env python3
"""Put a comment on a pull request, or update the one that is already there.

    python3 .ci/post_comment.py github|gitlab FILE

The file's first line is a hidden marker; our comment that begins with the same line is updated, and
if there is none, one is created. Without permission (a pull request from a fork) the reason goes to
standard output and the exit code is 0: the change is not to blame. Standard library only.

GitHub: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_TOKEN, PULL_REQUEST, COMMENT_AUTHOR.
GitLab: CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID, COMMENT_TOKEN.
"""

# ruff: noqa: S310, T201  (its addresses are the CI's own; what it prints is its result)

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = re.compile(r"<!-- slipway-diff:[A-Za-z0-9_.-]+ -->")
DENIED = (401, 403, 404)  # 404: how GitHub and GitLab hide private projects
TIMEOUT_S = 30


@dataclass(frozen=True)
class Forge:
    """Where the comments of one pull request are, and who we are there."""

    comments: str  # URL of the list
    update_method: str
    headers: Mapping[str, str]
    author: str  # a login; other people's comments are never touched

    def update_url(self, comment: Mapping[str, Any]) -> str:
        """GitHub returns a comment's own URL; GitLab's is the list's with its id."""
        return str(comment.get("url") or f"{self.comments}/{comment['id']}")

    def is_ours(self, comment: Mapping[str, Any], marker: str) -> bool:
        writer = comment.get("user") or comment.get("author") or {}
        name = writer.get("login") or writer.get("username")
        return name == self.author and str(comment.get("body")).splitlines()[:1] == [marker]


def main(kind: str, file: str) -> int:
    body = Path(file).read_text(encoding="utf-8")
    marker = body.partition("\n")[0]
    if not MARKER.fullmatch(marker):
        sys.exit(f"{file}: its first line is not a marker of slipway diff")
    try:
        forge = {"github": github, "gitlab": gitlab}[kind](os.environ)
        if forge is None:
            return skip("there is no token for comments here, as in pull requests from forks")
        ours = next((each for each in comments(forge) if forge.is_ours(each, marker)), None)
        if ours is None:
            request(forge, "POST", forge.comments, {"body": body})
        else:
            request(forge, forge.update_method, forge.update_url(ours), {"body": body})
    except urllib.error.HTTPError as error:
        if error.code in DENIED:
            return skip(f"the token may not comment here (HTTP {error.code})")
        sys.exit(f"{error.url}: HTTP {error.code} {error.reason}")
    except urllib.error.URLError as error:
        sys.exit(f"the API does not answer: {error.reason}")
    print("commented" if ours is None else "updated the comment")
    return 0


def github(variables: Mapping[str, str]) -> Forge | None:
    token = variables.get("GITHUB_TOKEN")
    if not token:
        return None
    root = f"{variables['GITHUB_API_URL']}/repos/{variables['GITHUB_REPOSITORY']}"
    return Forge(
        comments=f"{root}/issues/{variables['PULL_REQUEST']}/comments",
        update_method="PATCH",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
        author=variables.get("COMMENT_AUTHOR") or "github-actions[bot]",
    )


def gitlab(variables: Mapping[str, str]) -> Forge | None:
    """Asks for the token's user name: a project access token has a user of its own."""
    token = variables.get("COMMENT_TOKEN")
    if not token:
        return None
    api = variables["CI_API_V4_URL"]
    project = f"{api}/projects/{variables['CI_PROJECT_ID']}"
    headers = {"PRIVATE-TOKEN": token}
    user, _ = answer(urllib.request.Request(f"{api}/user", headers=headers))
    return Forge(
        comments=f"{project}/merge_requests/{variables['CI_MERGE_REQUEST_IID']}/notes",
        update_method="PUT",
        headers=headers,
        author=str(user["username"]),
    )


def comments(forge: Forge) -> Iterator[Mapping[str, Any]]:
    """All of them, page by page: ours may be an old one."""
    url: str | None = f"{forge.comments}?per_page=100"
    while url:
        page, links = answer(urllib.request.Request(url, headers=dict(forge.headers)))
        yield from page
        following = re.search(r'<([^>]+)>;\s*rel="next"', links)
        url = following.group(1) if following else None


def request(forge: Forge, method: str, url: str, document: Mapping[str, str]) -> None:
    headers = {**forge.headers, "Content-Type": "application/json"}
    data = json.dumps(document).encode()
    answer(urllib.request.Request(url, data=data, headers=headers, method=method))


def answer(asked: urllib.request.Request) -> tuple[Any, str]:
    """The JSON of an answer, and its Link header, which both forges use for pages."""
    with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as response:
        return json.load(response), response.headers.get("Link") or ""


def skip(reason: str) -> int:
    print(f"no comment: {reason}; the report is in the job's summary and artefacts")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("github", "gitlab"):
        sys.exit("usage: post_comment.py github|gitlab FILE")
    sys.exit(main(sys.argv[1], sys.argv[2]))
