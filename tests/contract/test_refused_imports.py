"""Imports that cannot be: refused before anything happens, with the reason and a way on."""

from pathlib import Path

import pytest

from tests.contract.stack import Stack

pytestmark = pytest.mark.binaries

REFUSED = {
    "consul keys cannot be imported: the id names no paths": """
        import pulumi_consul
        pulumi_consul.Keys(
            "made",
            keys=[pulumi_consul.KeysKeyArgs(path="t/imported", value="1")],
            opts=pulumi.ResourceOptions(import_="consul"),
        )
        """,
    "a command cannot be imported: nothing tells whether it has run": """
        import pulumi_command
        pulumi_command.local.Command(
            "made", create="touch " + journal, opts=pulumi.ResourceOptions(import_="made0123abcd")
        )
        """,
    "a password cannot be imported: its value would be the id": """
        import pulumi_random
        pulumi_random.RandomPassword(
            "made", length=12, opts=pulumi.ResourceOptions(import_="correct-horse")
        )
        """,
}


@pytest.mark.parametrize(("reason", "source"), REFUSED.items(), ids=["keys", "command", "password"])
def test_an_import_that_cannot_be_says_why_and_what_to_do(
    reason: str, source: str, stack: Stack, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    stack.program(source, journal=str(journal))
    for refused in (stack.preview(), stack.up()):
        assert not refused.ok
        assert reason in refused.text
        assert "Leave out `import_`" in refused.text
        assert "Traceback" not in refused.output
    assert stack.state() == {}
    assert not journal.exists()
