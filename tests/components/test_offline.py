"""The program's own process: what it may do, what it shows, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stacks.offline import shown
from stacks.recording import SECRET, SIGNATURE, UNKNOWN
from tests.unit.plan.samples import ROOT

pytestmark = pytest.mark.thorough

CANARY = "canary-4f1d"

# Ends its process when that writes a file, asks a network or starts a program.
WATCH = """
import os, sys, tempfile

tempfile.tempdir = "/tmp"  # found by a trial otherwise, by a package that the SDK imports

def refuse(event, arguments):
    wrote = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if wrote and (isinstance(arguments[0], int) or arguments[0] == "/dev/null"):
        return  # a descriptor that is open already
    if wrote or event in FORBIDDEN:
        os.write(2, f"forbidden: {event} {arguments}".encode())
        os._exit(99)

FORBIDDEN = {"socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen",
             "os.system", "os.exec", "os.posix_spawn", "os.mkdir", "os.rename", "os.remove"}
sys.addaudithook(refuse)
"""
WATCHED = f"import runpy\n{WATCH}\nrunpy.run_module('stacks.offline', run_name='__main__')"


def run(
    program: str, *, folder: Path, configuration: dict[str, str] | None = None, **request: Any
) -> subprocess.CompletedProcess[str]:
    (folder / "__main__.py").write_text(program)
    request = {
        "program": str(folder / "__main__.py"),
        "stack": "dev",
        "configuration": configuration or {},
        "secret_keys": [],
        **request,
    }
    return subprocess.run(
        [sys.executable, "-B", "-c", WATCHED],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        timeout=60,
        check=False,
    )


def resources(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Name -> resource."""
    assert result.returncode == 0, result.stderr
    return {found["name"]: found for found in json.loads(result.stdout)}


def test_secrets_are_masked_unknowns_are_marked_and_no_output_is_mixed_in(tmp_path: Path) -> None:
    program = f"""
import pulumi, pulumi_command as command, pulumi_random as random
print("hello")
pulumi.log.warn("careful")
secret = pulumi.Output.secret("{CANARY}")
late = random.RandomPassword("late", length=8)
command.local.Command(
    "one",
    create=pulumi.Output.concat("echo ", secret),
    stdin=late.result,
    environment={{"PLAIN": "plain", "SECRET": secret, "LATE": late.id}},
    triggers=[secret, 1, 2.5],
    opts=pulumi.ResourceOptions(protect=True),
)
"""
    result = run(program, folder=tmp_path)
    assert CANARY not in result.stdout + result.stderr
    assert "hello" in result.stderr
    assert "careful" in result.stderr
    assert {name: found["protect"] for name, found in resources(result).items()} == {
        "late": False,
        "one": True,
    }
    assert resources(result)["one"]["inputs"] == {
        "create": "[secret]",
        "environment": {"LATE": {"<unknown>": True}, "PLAIN": "plain", "SECRET": "[secret]"},
        "stdin": {"<unknown>": True},
        "triggers": ["[secret]", 1, 2.5],
    }


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (UNKNOWN, {"<unknown>": True}),
        ({SIGNATURE: SECRET, "value": CANARY}, "[secret]"),
        ({SIGNATURE: SECRET, "value": UNKNOWN}, "[secret]"),
        ({"a": [{"b": {SIGNATURE: SECRET, "value": {"c": CANARY}}}]}, {"a": [{"b": "[secret]"}]}),
        ([3.0, 0.5, -0.0, True, None, "3.0"], [3, 0.5, 0, True, None, "3.0"]),
        ({SIGNATURE: "another", "uri": "x"}, {SIGNATURE: "another", "uri": "x"}),
    ],
)
def test_a_value_of_the_wire_is_shown(wire: Any, expected: Any) -> None:
    assert json.dumps(shown(wire), sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_a_mistake_of_the_user_is_told_without_a_trace(tmp_path: Path) -> None:
    result = run("import pulumi\nraise pulumi.RunError('name a pool')", folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "name a pool\n"


def test_a_defect_of_the_program_is_told_with_its_trace(tmp_path: Path) -> None:
    result = run("1 / 0", folder=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "ZeroDivisionError" in result.stderr


@pytest.mark.parametrize(
    ("asks", "named"),
    [
        ("import pulumi; pulumi.runtime.invoke('aws:ec2/getAmi:getAmi', {})", "getAmi"),
        ("import pulumi_random as r; r.RandomId.get('old', 'an-id')", "RandomId old"),
    ],
)
def test_what_only_a_plugin_could_answer_is_refused_by_name(
    tmp_path: Path, asks: str, named: str
) -> None:
    result = run(asks, folder=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert named in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "forbidden",
    [
        "open('written', 'w')",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import subprocess; subprocess.run(['true'])",
    ],
)
def test_the_watch_of_these_tests_sees_what_it_forbids(tmp_path: Path, forbidden: str) -> None:
    command = [sys.executable, "-B", "-c", f"{WATCH}\n{forbidden}"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 99, result.stderr
    assert "forbidden" in result.stderr


def test_the_whole_program_writes_nothing_and_asks_nobody(tmp_path: Path) -> None:
    configuration = {
        "slipway:target": "dev",
        "slipway:network": '{"cidr": "127.77.0.0/24"}',
        "slipway:pools": '{"edge": {"kind": "local", "nodes": 1, "memory": "2GiB"}}',
        "slipway:models": "{}",
        "aws:secretKey": "[secret]",
    }
    program = (
        (ROOT / "__main__.py").read_text().replace("Path(__file__).parent", f"Path({str(ROOT)!r})")
    )
    found = resources(run(program, folder=tmp_path, configuration=configuration))
    assert {"platform", "consul", "nomad", "gateway", "envoy", "pool-edge", "node-edge-0"} <= set(
        found
    )
    schema = json.loads((ROOT / "schemas/offline-preview.schema.json").read_text())
    jsonschema.validate(list(found.values()), schema["properties"]["resources"])
