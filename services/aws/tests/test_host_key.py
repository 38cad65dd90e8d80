"""A fixed host gets its SSH host key, whatever comes in between."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import host_key
import pytest
from conftest import REGION, Metadata, enforce, role_credentials

CANARY = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n-----END OPENSSH PRIVATE KEY-----\n"
PUBLIC = "ssh-ed25519 AAAAC3Nz server-0\n"
NAME = "slipway/prod/hosts/server-0"
# moto judges Secrets Manager's calls without their resource; which secret is whose is judged by
# moto's own evaluator (tests/test_roles.py).
ALLOWED = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": "*"}
POLICY = {"Version": "2012-10-17", "Statement": [ALLOWED]}


class Host:
    """A host with the keys that its image came with. `restarts` are the files of its key at each
    restart of the SSH server."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ssh = root / "ssh"
        self.ssh.mkdir()
        for kind in ("rsa", "ed25519"):
            (self.ssh / f"ssh_host_{kind}_key").write_text("of the image")
            (self.ssh / f"ssh_host_{kind}_key.pub").write_text("of the image")
        self.restarts: list[str] = []
        self.document = root / "document.json"
        self.write({"schema_version": 1, "region": REGION, "secret": NAME})
        install = host_key.install
        monkeypatch.setattr(host_key, "install", lambda files: install(files, self.ssh))
        monkeypatch.setattr(host_key.subprocess, "run", self._run)

    def write(self, document: Any) -> None:
        self.document.write_text(json.dumps(document))

    def key(self) -> str:
        return (self.ssh / host_key.KEY).read_text()

    def boot(self) -> int:
        return host_key.main([str(self.document)])

    def _run(self, command: list[str], *, check: bool) -> None:
        assert command == ["/usr/bin/systemctl", "restart", "ssh.service"]
        assert check
        self.restarts.append(self.key())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


@pytest.fixture
def role(aws: str, account: Any, metadata: Metadata) -> dict[str, str]:
    """The instance has a role that may read secrets, and there is one."""
    secrets = account("secretsmanager")
    value = json.dumps({"private": CANARY, "public": PUBLIC})
    secrets.create_secret(Name=NAME, SecretString=value)
    found = role_credentials(account, POLICY)
    give(metadata, found)
    enforce(aws)
    return found


def give(metadata: Metadata, credentials: dict[str, str]) -> None:
    metadata.texts["iam/security-credentials/"] = "host"
    found = {**credentials, "Token": credentials["SessionToken"]}
    metadata.texts["iam/security-credentials/host"] = json.dumps(found)


def test_it_has_its_own_key_and_no_other_before_the_server_shows_one(
    host: Host, role: dict[str, str]
) -> None:
    assert host.boot() == 0
    assert host.restarts == [CANARY]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in host.ssh.iterdir()}
    assert modes == {"ssh_host_ed25519_key": 0o600, "ssh_host_ed25519_key.pub": 0o644}
    assert (host.ssh / "ssh_host_ed25519_key.pub").read_text() == PUBLIC


def test_every_boot_brings_the_key_again(host: Host, role: dict[str, str]) -> None:
    assert (host.boot(), host.boot()) == (0, 0)
    assert host.restarts == [CANARY, CANARY]


def test_a_run_that_was_cut_off_is_completed_by_the_next_one(
    host: Host, role: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(host_key.subprocess, "run", _killed)
        with pytest.raises(KeyboardInterrupt):
            host.boot()
    (host.ssh / f".{host_key.KEY}.partial").write_text("half of")
    assert host.boot() == 0
    assert host.restarts == [CANARY]
    assert not [path.name for path in host.ssh.iterdir() if path.name.startswith(".")]


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_role_that_has_not_arrived_yet_changes_nothing(
    host: Host, role: dict[str, str], metadata: Metadata, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata.texts.clear()
    assert host.boot() == 1
    assert (host.key(), host.restarts) == ("of the image", [])
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"SecretAccessKey": "another"}, "SignatureDoesNotMatch"),
        (
            {"AccessKeyId": "AKIANOBODY", "SessionToken": "x"},
            "token included in the request is invalid",
        ),
    ],
)
def test_a_refusal_is_said_in_the_words_of_aws(
    host: Host,
    role: dict[str, str],
    metadata: Metadata,
    change: dict[str, str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give(metadata, {**role, **change})
    assert host.boot() == 1
    assert (host.key(), host.restarts) == ("of the image", [])
    assert said in capsys.readouterr().err


def test_a_role_without_the_permission_gets_nothing(
    host: Host, aws: str, account: Any, metadata: Metadata, capsys: pytest.CaptureFixture[str]
) -> None:
    value = json.dumps({"private": CANARY, "public": PUBLIC})
    account("secretsmanager").create_secret(Name=NAME, SecretString=value)
    other = {**POLICY, "Statement": [{**ALLOWED, "Action": "s3:GetObject"}]}
    give(metadata, role_credentials(account, other))
    enforce(aws)
    assert host.boot() == 1
    assert "AccessDenied" in capsys.readouterr().err


def test_a_secret_that_does_not_exist_is_named(
    host: Host, role: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    host.write({"schema_version": 1, "region": REGION, "secret": "another"})
    assert host.boot() == 1
    assert "another: 404" in capsys.readouterr().err


@pytest.mark.parametrize("document", [{}, {"schema_version": 2}, [], "x"])
def test_a_wrong_document_is_another_exit_code(host: Host, document: Any) -> None:
    host.write(document)
    assert host.boot() == 2
    assert (host.key(), host.restarts) == ("of the image", [])


def test_no_key_is_printed(
    host: Host, role: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    host.boot()
    printed = capsys.readouterr()
    assert "server-0" in printed.out
    for secret in ("canary", role["SecretAccessKey"], role["SessionToken"]):
        assert secret not in printed.out + printed.err
