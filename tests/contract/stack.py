"""One Pulumi stack of a test, driven through the real CLI."""

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_HANG_S = 600
PASSPHRASE = "contract"


@dataclass(frozen=True)
class Outcome:
    """What a CLI command did.

    Attributes:
        steps: (operation, logical name) of every resource that changes, in order.
        messages: the diagnostics shown, without colours.
    """

    ok: bool
    steps: list[tuple[str, str]]
    messages: list[str]
    output: str

    @property
    def text(self) -> str:
        """All diagnostics as one text."""
        return "\n".join(self.messages)


class Stack:
    """A project in a folder of its own, with its state and its Pulumi home."""

    def __init__(self, folder: Path, pulumi: Path, pulumi_home: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self._pulumi = pulumi
        self._home = pulumi_home
        self.variables: dict[str, str] = {}  # of the CLI and what it starts, e.g. NOMAD_ADDR

    def initialise(self) -> None:
        """Make the project and its empty stack "s"."""
        self.project.mkdir(parents=True)
        (self.folder / "state").mkdir()
        self.settings(virtualenv=sys.prefix)
        created = self.run("stack", "init", "s")
        assert created.returncode == 0, created.stderr

    def settings(self, virtualenv: str) -> None:
        """Write Pulumi.yaml."""
        runtime = {"name": "python", "options": {"virtualenv": virtualenv}}
        (self.project / "Pulumi.yaml").write_text(json.dumps({"name": "t", "runtime": runtime}))

    def program(self, source: str, **values: object) -> None:
        """The program to run; `values` are variables of it."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        text = "\n".join(["import pulumi", *lines, textwrap.dedent(source)])
        (self.project / "__main__.py").write_text(text)

    def environment(self) -> dict[str, str]:
        """The offline environment of the CLI; nothing of the user's cluster settings."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PULUMI_", "NOMAD_", "CONSUL_"))
        }
        return {
            **inherited,
            **self.variables,
            "PULUMI_HOME": str(self._home),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # has --event-log
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        }

    def command(self, *arguments: str) -> list[str]:
        """The command line of the CLI for this project."""
        return [str(self._pulumi), *arguments, "--non-interactive", f"--cwd={self.project}"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the CLI and return what it printed."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_HANG_S,
        )

    def up(self, *options: str) -> Outcome:
        return self._operate("up", "--yes", "--skip-preview", *options)

    def preview(self, *options: str) -> Outcome:
        return self._operate("preview", "--refresh=false", *options)

    def refresh(self) -> Outcome:
        return self._operate("refresh", "--yes", "--skip-preview")

    def destroy(self) -> Outcome:
        return self._operate("destroy", "--yes", "--skip-preview")

    def _operate(self, *arguments: str) -> Outcome:
        done = self.run(*arguments, "--stack=s", "--event-log=" + str(self.folder / "events"))
        events = self._events()
        return Outcome(
            ok=done.returncode == 0,
            steps=_steps(events),
            messages=[_plain(event["diagnosticEvent"]) for event in events if _is_shown(event)],
            output=done.stdout + done.stderr,
        )

    def _events(self) -> list[dict[str, Any]]:
        log = self.folder / "events"
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        log.unlink(missing_ok=True)
        return events

    def _recorded(self) -> list[dict[str, Any]]:
        path = self.folder / "state" / ".pulumi" / "stacks" / "t" / "s.json"
        latest = json.loads(path.read_text())["checkpoint"]["latest"] or {}
        resources: list[dict[str, Any]] = latest.get("resources", [])
        return resources

    def state(self) -> dict[str, dict[str, Any]]:
        """{logical name: resource} of the recorded state, without stack and providers."""
        return {
            resource["urn"].rpartition("::")[2]: resource
            for resource in self._recorded()
            if not resource["type"].startswith("pulumi:")
        }

    def stack_outputs(self) -> dict[str, Any]:
        """What the program has exported, secrets encrypted."""
        return next(
            dict(resource.get("outputs", {}))
            for resource in self._recorded()
            if resource["type"] == "pulumi:pulumi:Stack"
        )

    def outputs(self, name: str) -> dict[str, Any]:
        """The recorded outputs of one resource."""
        recorded: dict[str, Any] = self.state()[name]["outputs"]
        return recorded

    def files_with(self, text: str) -> list[str]:
        """Files of the state folder that hold `text` in plain."""
        return [
            str(path)
            for path in (self.folder / "state").rglob("*")
            if path.is_file() and text.encode() in path.read_bytes()
        ]


def _steps(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    metadata = [
        event["resourcePreEvent"]["metadata"] for event in events if "resourcePreEvent" in event
    ]
    return [
        (step["op"], step["urn"].rpartition("::")[2])
        for step in metadata
        if step["op"] not in ("same", "refresh", "read") and not step["type"].startswith("pulumi:")
    ]


def _is_shown(event: dict[str, Any]) -> bool:
    return event.get("diagnosticEvent", {}).get("severity") in (
        "info",
        "info#err",
        "warning",
        "error",
    )


def _plain(diagnostic: dict[str, Any]) -> str:
    return re.sub(r"<\{%[^%]*%\}>", "", diagnostic["message"]).strip()
