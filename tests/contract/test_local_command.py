"""command.local.Command through the official SDK and the real CLI."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.contract.stack import Stack
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.binaries

CANARY = "canary-5f2c91"
# Every run of a command appends its name and what it was given.
PROGRAM = """
import pulumi_command
note = 'echo {}:$STAGE:${{PULUMI_COMMAND_STDOUT-none}}:$(cat | wc -c):$(pwd) >>' + journal
pulumi_command.local.Command(
    "c",
    create=note.format("create") + "; echo made $STAGE; echo aside >&2",
    update=note.format("update") + "; echo changed $STAGE",
    delete=note.format("delete"),
    environment={"STAGE": stage},
    stdin=pulumi.Output.secret(secret),
    dir=folder,
    triggers=[trigger],
)
"""


def test_a_command_is_created_updated_replaced_and_deleted_with_the_documented_environment(
    stack: Stack, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    values = {"journal": str(journal), "folder": str(tmp_path), "secret": CANARY}
    length = len(CANARY)

    stack.program(PROGRAM, stage="one", trigger=1, **values)
    created = stack.up()
    assert created.ok, created.output
    assert created.steps == [("create", "c")]
    assert {"made one", "aside"} <= set(created.messages)
    outputs = stack.outputs("c")
    assert (outputs["stdout"], outputs["stderr"]) == ("made one", "aside")
    assert outputs["environment"] == {"STAGE": "one"}
    assert re.fullmatch(r"c[0-9a-f]{8}", stack.state()["c"]["id"])
    assert stack.preview("--expect-no-changes").ok

    stack.program(PROGRAM, stage="two", trigger=1, **values)
    assert stack.up().steps == [("update", "c")]
    assert stack.outputs("c")["stdout"] == "changed two"
    assert stack.outputs("c")["stderr"] == ""

    stack.program(PROGRAM, stage="three", trigger=2, **values)
    replaced = stack.up()
    assert [operation for operation, _ in replaced.steps] == [
        "create-replacement",
        "replace",
        "delete-replaced",
    ]
    assert stack.refresh().steps == []
    assert stack.destroy().ok

    assert journal.read_text().splitlines() == [
        f"create:one:none:{length}:{tmp_path}",
        f"update:two:made one:{length}:{tmp_path}",
        f"create:three:none:{length}:{tmp_path}",
        f"delete:two:changed two:{length}:{tmp_path}",
        f"delete:three:made three:{length}:{tmp_path}",
    ]
    assert stack.files_with(CANARY) == []
    assert stack.files_with("made one") != []  # the search would have found a plain value


def test_a_failed_command_shows_what_it_printed_and_is_not_recorded(stack: Stack) -> None:
    stack.program(
        """
        import pulumi_command
        pulumi_command.local.Command(
            "c", create="echo the disk is full >&2; exit 3", interpreter=["/bin/sh", "-ec"]
        )
        """
    )
    failed = stack.up()
    assert not failed.ok
    assert "exit status 3" in failed.text
    assert "the disk is full" in failed.text
    assert "Traceback" not in failed.output
    assert "c" not in stack.state()


@pytest.mark.stand_in
def test_an_import_says_why_it_is_impossible_and_what_to_do(stack: Stack, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    stack.program(
        """
        import pulumi_command
        pulumi_command.local.Command(
            "made", create="touch " + journal, opts=pulumi.ResourceOptions(import_="made0123abcd")
        )
        """,
        journal=str(journal),
    )
    for refused in (stack.preview(), stack.up()):
        assert not refused.ok
        assert (
            "a command cannot be imported, because it is unknown whether it has run" in refused.text
        )
        assert "Leave out `import_`" in refused.text
        assert "Traceback" not in refused.output
    assert stack.state() == {}
    assert not journal.exists()


def test_an_interrupted_update_ends_the_whole_process_group(stack: Stack, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    stack.program(
        """
        import pulumi_command
        pulumi_command.local.Command(
            "c", create=f"trap : INT; trap '' TERM; sleep 300 & echo $$ $! > {pids}.new; "
            f"mv {pids}.new {pids}; wait")
        """,
        pids=str(pids),
    )
    process = subprocess.Popen(
        stack.command("up", "--yes", "--skip-preview", "--stack=s"),
        env=stack.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: process.poll() is not None or pids.exists())
    assert process.poll() is None
    running = [int(pid) for pid in pids.read_text().split()]
    assert len(running) == 2
    assert all(_exists(pid) for pid in running)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_S) != 0
    assert not any(_exists(pid) for pid in running)


def _exists(pid: int) -> bool:
    """Whether it still runs; an orphan that nobody has reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
