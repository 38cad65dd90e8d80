"""command.remote.Command through the official SDK, the real CLI and a real sshd."""

import base64
import re
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat

from tests.contract.authority import written
from tests.contract.operations import idle_operation, recorded
from tests.contract.sshd import SshServer
from tests.contract.stack import Stack
from tests.waiting import until
from toolchain.plugins.remote_command import RemoteCommand
from toolchain.plugins.resource import ProviderError

pytestmark = pytest.mark.binaries

CANARY = "canary-e81f07"
# Every run of a command appends its name and what it was given.
PROGRAM = """
from pulumi_command.remote import Command, ConnectionArgs, ProxyConnectionArgs

names = {"hostKey": "host_key", "privateKey": "private_key", "dialErrorLimit": "dial_error_limit"}
def settings(given):
    return {names.get(name, name): value for name, value in given.items()}
proxy = connection.pop("proxy", None)
proxy = proxy and ProxyConnectionArgs(**settings(proxy))
note = 'echo {}:$STAGE:${{PULUMI_COMMAND_STDOUT-none}}:$(cat | wc -c) >>' + journal
Command(
    "c",
    connection=ConnectionArgs(**settings(connection), proxy=proxy),
    create=note.format("create") + "; echo made $STAGE; echo aside >&2",
    update=note.format("update") + "; echo changed $STAGE",
    delete=note.format("delete"),
    environment={"STAGE": stage},
    stdin=pulumi.Output.secret(secret),
    triggers=[trigger],
)
"""


def other_host_key() -> str:
    """A well-formed public key that is nobody's."""
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def test_a_command_is_created_updated_replaced_and_deleted_on_the_host(
    stack: Stack, tmp_path: Path, host: SshServer
) -> None:
    journal = tmp_path / "journal"
    values: dict[str, Any] = {"journal": str(journal), "secret": CANARY}
    values["connection"] = host.connection()
    length = len(CANARY)

    stack.program(PROGRAM, stage="one", trigger=1, **values)
    created = stack.up()
    assert created.ok, created.output
    assert created.steps == [("create", "c")]
    assert {"made one", "aside"} <= set(created.messages)
    outputs = stack.outputs("c")
    assert (outputs["stdout"], outputs["stderr"]) == ("made one", "aside")
    assert outputs["connection"]["ciphertext"]
    assert re.fullmatch(r"c[0-9a-f]{8}", stack.state()["c"]["id"])
    assert stack.preview("--expect-no-changes").ok

    values["connection"] = host.connection(dialErrorLimit=1)
    stack.program(PROGRAM, stage="one", trigger=1, **values)
    assert stack.up().steps == [("update", "c")]  # a changed connection alone runs it again
    assert (stack.outputs("c")["stdout"], stack.outputs("c")["stderr"]) == ("changed one", "")

    stack.program(PROGRAM, stage="two", trigger=2, **values)
    assert [operation for operation, _ in stack.up().steps] == [
        "create-replacement",
        "replace",
        "delete-replaced",
    ]
    assert stack.destroy().ok

    assert journal.read_text().splitlines() == [
        f"create:one:none:{length}",
        f"update:one:made one:{length}",
        f"create:two:none:{length}",
        f"delete:one:changed one:{length}",
        f"delete:two:made two:{length}",
    ]
    for secret in (CANARY, host.private_key.splitlines()[1]):
        assert stack.files_with(secret) == []
    assert stack.files_with("made one") != []  # the search would have found a plain value


def test_a_host_is_reached_by_way_of_a_jump_host(
    stack: Stack, tmp_path: Path, host: SshServer, jump_host: SshServer
) -> None:
    journal = tmp_path / "journal"
    values: dict[str, Any] = {"journal": str(journal), "stage": "far", "secret": "", "trigger": 1}
    reached = host.connection(proxy=jump_host.connection())
    stack.program(PROGRAM, **values, connection=reached)
    applied = stack.up()
    assert applied.ok, applied.output
    assert journal.read_text() == "create:far:none:0\n"
    assert jump_host.log.read_text().count("Accepted publickey") == 1


def test_the_key_of_a_jump_host_is_checked_as_well(host: SshServer, jump_host: SshServer) -> None:
    refused = host.connection(proxy=jump_host.connection(hostKey=other_host_key()))
    with pytest.raises(ProviderError, match=rf"Dial proxy {jump_host.address}.*does not match"):
        RemoteCommand().create({"connection": refused, "create": "true"}, idle_operation())


def test_what_fails_is_named_and_not_recorded(stack: Stack, host: SshServer) -> None:
    stack.program(
        """
        from pulumi_command.remote import Command, ConnectionArgs
        for name, (host, port, host_key, environment) in cases.items():
            connection = ConnectionArgs(
                host=host, port=port, user=user, private_key=private_key, host_key=host_key,
                dial_error_limit=1,
            )
            Command(name, connection=connection, create=create, environment=environment)
        """,
        user=host.connection()["user"],
        private_key=host.private_key,
        create="echo the disk is full >&2; exit 3",
        cases={
            "exits": (host.address, 2222, host.host_key, {}),
            "wrong-key": (host.address, 2222, other_host_key(), {}),
            "closed": (host.address, 2223, host.host_key, {}),
            "variable": (host.address, 2222, host.host_key, {"OTHER": "1"}),
        },
    )
    failed = stack.up("--continue-on-error")
    assert not failed.ok
    told = "\n".join(failed.messages)
    assert 'Process exited with status 3: running "echo the disk is full >&2; exit 3":' in told
    assert "the disk is full" in told
    wrong = told[told.index(f"Host key for server '{host.address}' does not match") :]
    assert host.host_key.split()[1] in wrong.splitlines()[0]
    assert f"Dial {host.address}:2223: after 1 failed attempts: [Errno 111] Connection refu" in told
    assert "Dial 1/1 failed: retrying" in told
    assert 'could not set environment variable "OTHER"' in told
    assert "Traceback" not in failed.output
    assert stack.state() == {}


def test_every_failed_dial_is_shown_and_tried_again_until_the_limit(host: SshServer) -> None:
    shown: list[str] = []
    inputs = {"connection": host.connection(port=2223, dialErrorLimit=2), "create": "true"}
    with pytest.raises(ProviderError, match=r"after 2 failed attempts: .*Connection refused"):
        RemoteCommand().create(inputs, idle_operation(shown))
    assert shown == ["Dial 1/2 failed: retrying", "Dial 2/2 failed: retrying"]


def answers(connection: dict[str, Any]) -> bool:
    inputs = {"connection": connection, "create": "printf here"}
    return bool(RemoteCommand().create(inputs, idle_operation())[1]["stdout"] == "here")


def test_any_key_of_a_host_may_be_pinned_and_without_one_any_host_is_accepted(
    host: SshServer,
) -> None:
    for pinned in (host.host_key, host.other_host_key, None):
        assert answers(host.connection(hostKey=pinned))


@pytest.mark.parametrize(
    ("key", "form"),
    [
        (ed25519.Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH),
        (rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL),
        (ec.generate_private_key(ec.SECP384R1()), PrivateFormat.TraditionalOpenSSL),
    ],
    ids=["ed25519", "rsa", "ecdsa"],
)
def test_a_key_of_every_kind_opens_a_host(key: Any, form: PrivateFormat, host: SshServer) -> None:
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    connection, before = host.connection(privateKey=written(key, form)), host.authorized.read_text()
    with pytest.raises(ProviderError, match="Authentication failed"):
        answers(connection)
    host.authorized.write_text(f"{before}{public}\n")
    try:
        assert answers(connection)
    finally:
        host.authorized.write_text(before)


def test_a_private_key_may_have_a_password_or_lie_in_an_agent(
    host: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, agent = tmp_path / "key", tmp_path / "agent"
    path.write_text(host.private_key)
    path.chmod(0o600)
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL) as held:
        try:
            while not agent.exists():
                assert held.poll() is None
                time.sleep(0.01)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
            subprocess.run(["ssh-add", "-q", str(path)], check=True)
            assert answers(host.connection(privateKey=None))
        finally:
            held.terminate()
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(ProviderError, match=r"after 0 failed attempts: No authentication"):
        answers(host.connection(privateKey=None))
    encrypt = ["ssh-keygen", "-q", "-p", "-N", "correct horse", "-f", str(path)]
    subprocess.run(encrypt, check=True, capture_output=True)
    locked = host.connection(privateKey=path.read_text(), privateKeyPassword="correct horse")
    assert answers(locked)
    with pytest.raises(ProviderError, match="failed to parse private key"):
        answers({**locked, "privateKeyPassword": "wrong"})


@pytest.mark.parametrize("setting", ["hostKey", "privateKey"])
def test_a_key_that_cannot_be_read_is_refused_without_a_dial(setting: str, host: SshServer) -> None:
    shown: list[str] = []
    inputs = {"connection": host.connection(**{setting: "no key", "dialErrorLimit": -1})}
    with pytest.raises(ProviderError, match="failed to parse"):
        RemoteCommand().create({**inputs, "create": "true"}, idle_operation(shown))
    assert shown == []


def test_previous_outputs_are_only_tried_where_the_host_takes_no_variables(
    jump_host: SshServer,
) -> None:
    inputs = {
        "connection": jump_host.connection(),
        "create": "echo ${PULUMI_COMMAND_STDOUT-unset}",
    }
    outputs = RemoteCommand().update(recorded({"stdout": "before"}), inputs, idle_operation())
    assert outputs["stdout"] == "unset"


def test_large_input_and_output_pass_each_other(host: SshServer) -> None:
    text = "x" * 79 + "\n"
    inputs = {"connection": host.connection(), "create": "tee /dev/stderr", "stdin": text * 20_000}
    _, outputs = RemoteCommand().create({**inputs, "logging": "none"}, idle_operation())
    assert outputs["stdout"] == outputs["stderr"] == inputs["stdin"].removesuffix("\n")


def test_an_interrupt_ends_the_waiting_and_not_the_program(host: SshServer, tmp_path: Path) -> None:
    end, done, cancelled = tmp_path / "end", tmp_path / "done", threading.Event()
    operation = replace(idle_operation(), cancelled=cancelled, log=lambda _: cancelled.set())
    inputs = {
        "connection": host.connection(),
        "create": f"echo started; while ! [ -e {end} ]; do sleep 0.05; done; touch {done}",
    }
    with pytest.raises(ProviderError, match="interrupted"):
        RemoteCommand().create(inputs, operation)
    assert not done.exists()
    end.touch()
    assert until(done.exists)
