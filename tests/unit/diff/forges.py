"""A forge's comments on loopback, and a runner that does what its workflow file says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADDRESS = "127.95.0.7"
PAGE = 2  # comments a page, so that a few make several pages
# Who made a comment: GitHub says user.login, GitLab author.username.
WRITER = {"github": ("user", "login"), "gitlab": ("author", "username")}
OUR_NAME = {"github": "github-actions[bot]", "gitlab": "project_1_bot"}


@dataclass
class Forge:
    """Comments in the order they were made. `denied`: the status of every write, 0 for none."""

    kind: str
    address: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    denied: int = 0

    def add(self, body: str, writer: str) -> dict[str, Any]:
        who, name = WRITER[self.kind]
        comment = {"id": len(self.comments) + 1, "body": body, who: {name: writer}}
        self.comments.append(comment)
        return comment

    def page(self, url: str) -> tuple[list[dict[str, Any]], str]:
        number = int(parse_qs(urlsplit(url).query).get("page", ["1"])[0])
        shown = self.comments[(number - 1) * PAGE : number * PAGE]
        more = len(self.comments) > number * PAGE
        path = urlsplit(url).path
        link = f'<{self.address}{path}?page={number + 1}>; rel="next"' if more else ""
        return shown, link

    def ours(self) -> list[dict[str, Any]]:
        who, name = WRITER[self.kind]
        return [each for each in self.comments if each[who][name] == OUR_NAME[self.kind]]


@contextmanager
def forge(kind: str) -> Iterator[Forge]:
    """GitHub's and GitLab's API, as far as comments need it."""
    state = Forge(kind=kind)
    listed = (
        "/repos/o/r/issues/7/comments" if kind == "github" else "/projects/1/merge_requests/7/notes"
    )
    single = "/repos/o/r/issues/comments" if kind == "github" else listed
    updates = "PATCH" if kind == "github" else "PUT"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path == "/user":
                return self.reply(200, {"username": OUR_NAME[kind]})
            if path != listed:
                return self.reply(404, {})
            comments, link = state.page(self.path)
            if kind == "github":
                comments = [
                    {**each, "url": f"{state.address}{single}/{each['id']}"} for each in comments
                ]
            return self.reply(200, comments, link)

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")
            assert token in ("Bearer its-token", "its-token")
            state.writes.append(f"{self.command} {self.path}")
            if state.denied:
                return self.reply(state.denied, {})
            if self.command == "POST" and self.path == listed:
                return self.reply(201, state.add(document["body"], OUR_NAME[kind]))
            number = self.path.removeprefix(f"{single}/")
            if self.command != updates or not number.isdigit():
                return self.reply(404, {})
            comment = state.comments[int(number) - 1]
            comment["body"] = document["body"]
            return self.reply(200, comment)

        do_PATCH = do_PUT = do_POST  # noqa: N815

        def reply(self, status: int, document: Any, link: str = "") -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if link:
                self.send_header("Link", link)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((ADDRESS, 0), Handler) as server:
        state.address = f"http://{ADDRESS}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Runner:
    """Runs the jobs of a GitHub workflow in order, each in a checkout of its own.

    Actions that it knows are played: checkout, upload-artifact, download-artifact.
    """

    repository: Path
    folder: Path
    context: dict[str, str]  # of ${{ }}
    variables: dict[str, str]  # what GitHub sets for every step
    artifacts: dict[str, list[Path]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)  # step -> exit code
    output: str = ""

    def run_job(self, name: str, job: Mapping[str, Any]) -> bool:
        """Whether every step succeeded; after the first that did not, none runs."""
        place = self.folder / name
        for step in job["steps"]:
            variables = {**self._values(job.get("env", {})), **self._values(step.get("env", {}))}
            if "uses" in step:
                self._play(step["uses"].partition("@")[0], self._values(step["with"]), place)
                continue
            code = self._shell(self._value(step["run"]), place, variables)
            self.codes[step["name"]] = code
            if code:
                return False
        return True

    def summary(self) -> str:
        return Path(self.variables["GITHUB_STEP_SUMMARY"]).read_text()

    def _play(self, action: str, inputs: dict[str, str], place: Path) -> None:
        if action == "actions/checkout":
            checkout(self.repository, inputs["ref"], place)
        elif action == "actions/setup-python":
            # The steps run with the Python of these tests: it must be the one that is asked for.
            assert inputs["python-version"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
        elif action == "actions/upload-artifact":
            paths = [place / path for path in inputs["path"].split()]
            self.artifacts[inputs["name"]] = [path for path in paths if path.exists()]
        elif action == "actions/download-artifact":
            (place / inputs["path"]).mkdir()
            for path in self.artifacts[inputs["name"]]:
                shutil.copy(path, place / inputs["path"])
        else:
            raise AssertionError(f"an action that this runner cannot play: {action}")

    def _shell(self, script: str, place: Path, variables: Mapping[str, str]) -> int:
        done = shell(script, place, {**self.variables, **variables})
        self.output += done.stdout + done.stderr
        return done.returncode

    def _values(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {key: self._value(str(value)) for key, value in values.items()}

    def _value(self, text: str) -> str:
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: self.context[match.group(1)], text)


def shell(
    script: str, place: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """As both forges run a step; of this machine's variables only those that find programs."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "SLIPWAY_CACHE") if key in os.environ}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=place,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def checkout(repository: Path, commit: str, place: Path) -> None:
    git(repository, "clone", "--quiet", "--shared", "--no-checkout", str(repository), str(place))
    git(place, "checkout", "--quiet", "--detach", commit)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
