"""random.RandomPassword through the official SDK and the real CLI."""

import re

import pytest

from tests.contract.stack import Stack

pytestmark = pytest.mark.binaries

PROGRAM = """
import pulumi_random
password = pulumi_random.RandomPassword("password", length=length, special=False)
pulumi.export("shown", pulumi.Output.unsecret(password.result))
"""


def _exported(stack: Stack) -> str:
    return str(stack.stack_outputs()["shown"])


def test_a_password_is_kept_until_an_input_changes_and_is_secret_in_the_state(stack: Stack) -> None:
    stack.program(PROGRAM, length=24)
    created = stack.up()
    assert created.ok, created.output
    assert created.steps == [("create", "password")]
    first = _exported(stack)
    assert len(first) == 24
    assert first.isalnum()
    assert stack.state()["password"]["id"] == "none"
    assert first not in str(stack.outputs("password"))

    assert stack.preview("--expect-no-changes").ok
    assert stack.refresh().steps == []
    assert _exported(stack) == first

    stack.program(PROGRAM, length=30)
    replaced = stack.up()
    assert replaced.ok, replaced.output
    assert [operation for operation, _ in replaced.steps] == [
        "create-replacement",
        "replace",
        "delete-replaced",
    ]
    assert len(_exported(stack)) == 30
    assert _exported(stack)[:24] != first

    assert stack.destroy().ok
    assert stack.state() == {}


def test_an_imported_password_is_the_id_of_its_import(stack: Stack) -> None:
    source = """
        import pulumi_random
        password = pulumi_random.RandomPassword(
            "password", length=13, opts=pulumi.ResourceOptions(import_=import_id)
        )
        pulumi.export("shown", pulumi.Output.unsecret(password.result))
        """
    stack.program(source, import_id="correct-horse")
    imported = stack.up()
    assert imported.ok, imported.output
    assert imported.steps == [("import", "password")]
    assert stack.state()["password"]["id"] == "none"
    assert stack.outputs("password")["result"]["ciphertext"]
    assert _exported(stack) == "correct-horse"
    stack.program(source, import_id=None)
    assert stack.preview("--expect-no-changes").ok


def test_a_password_stays_out_of_every_file_of_the_state(stack: Stack) -> None:
    stack.program(
        """
        import pulumi_random
        password = pulumi_random.RandomPassword("p", length=12, special=False)
        pulumi.export("password", password.result)
        pulumi.export("plain", "canary-c41d")
        """
    )
    assert stack.up().ok
    shown = stack.run("stack", "output", "password", "--show-secrets", "--stack=s")
    assert re.fullmatch("[a-zA-Z0-9]{12}", shown.stdout.strip()), shown.stderr
    assert stack.files_with(shown.stdout.strip()) == []
    assert stack.files_with("canary-c41d") != []  # the search would have found a plain value
