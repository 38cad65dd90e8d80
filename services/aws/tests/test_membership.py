"""From the user data to a node that has joined: moto's S3, Secrets Manager and STS, an introducer,
and in place of services/host a program that records what it is given."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import HANG_S, REGION, Metadata, enforce
from instance.artifacts import PYTHON
from test_introducer import INSTANCE, NAME, Site, site

SERVICE = Path(__file__).parents[1]
BUCKET, PREFIX = "acme-slipway", "prod/artifacts"
AWS, HOST = "bundles/aws-0123456789ab", "bundles/host-0123456789ab"
MODEL, DIGEST = "bundles/model-0123456789ab", "d" * 64
SECRET = "slipway/prod/pools/l4"
NODE = {
    "schema_version": 3,
    "host": "@host@",
    "agents": [{"name": "nomad", "configuration": {"meta": {"address": "@address@"}}}],
}
RECORDER = """
import json, os, sys
folder = os.environ["SLIPWAY_RUN"]
host = json.loads(os.environ["SLIPWAY_DOCUMENT"])["host"]
seen = {key: value for key, value in os.environ.items() if key.startswith("SLIPWAY_")}
introduction = os.path.join(os.environ["SLIPWAY_SCRATCH"], "introduction.jwt")
seen["introduction"] = open(introduction).read() if os.path.exists(introduction) else ""
seen["secrets"], seen["arguments"] = json.load(sys.stdin), sys.argv[1:]
os.makedirs(os.path.join(folder, "nodes", host), exist_ok=True)
open(os.path.join(folder, "runs"), "a").write(json.dumps(seen) + "\\n")
open(os.path.join(folder, "nodes", host, "joined"), "w").close()
if os.path.exists(introduction):
    os.unlink(introduction)
"""
__all__ = ["site"]


JOINED = "is a node of pool l4"


@dataclass
class Ended:
    """`returncode` is 0 for a node that goes on."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Running:
    root: Path
    process: subprocess.Popen[bytes]

    def until(self, line: str) -> Ended:
        """The line, or the end."""
        deadline_s = time.monotonic() + HANG_S
        while line not in (said := (self.root / "said").read_text()):
            if self.process.poll() is not None:
                break
            assert time.monotonic() < deadline_s, said
            time.sleep(0.02)
        return Ended(self.process.poll() or 0, said, (self.root / "complained").read_text())


class Machine:
    """An instance, and the bucket that it starts from."""

    def __init__(self, root: Path, site: Site, s3: Any) -> None:
        self.root, self.site, self.s3 = root, site, s3
        self.folder, self.run = root / "opt", root / "run"
        self.artifacts = [AWS, HOST, "envs/node-0123456789ab"]
        for artifact in (*self.artifacts, MODEL):
            self.put(artifact)

    def put(self, artifact: str, *, cut: bool = False) -> None:
        python = artifact.startswith("envs/")
        key = f"{artifact}/{PYTHON}.tar" if python else f"{artifact}.tar"
        content = self.archive(artifact, cut=cut)
        self.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{key}", Body=content)

    def archive(self, artifact: str, *, cut: bool = False) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w|", dereference=True) as archive:
            if artifact == AWS:
                for name in ("node.py", "membership", "instance", "program"):
                    archive.add(SERVICE / name, f"{artifact}/{name}")
            elif artifact == HOST:
                add(archive, f"{artifact}/agents.py", RECORDER)
            else:
                add(archive, f"{artifact}/lib/python{PYTHON}/site-packages/x.py", "")
            if not cut:
                add(archive, ".complete", "")
        return stream.getvalue()

    def document(self, **changes: Any) -> tuple[str, str]:
        """The key and the digest of a boot document that is in the bucket."""
        introducers = [f"https://127.0.0.1:{self.site.server.server_port}"]
        content = {
            "schema_version": 1,
            "environment": "prod",
            "pool": "l4",
            "region": REGION,
            "bucket": BUCKET,
            "prefix": PREFIX,
            "running": f"{PREFIX}/pools/l4-running.json",
            "folder": str(self.folder),
            "folders": {"run": str(self.run), "scratch": str(self.root / "scratch")},
            "artifacts": self.artifacts,
            "bundle": AWS.removeprefix("bundles/"),
            "agents": HOST.removeprefix("bundles/"),
            "secret": SECRET,
            "sts": "https://sts.us-east-1.amazonaws.com/",
            "introducers": {"addresses": introducers, "server_name": NAME},
            "node": NODE,
            "group": {"name": "prod-l4", "joined": "joined", "left": "left", "heartbeat_s": 300},
            **changes,
        }
        text = json.dumps(content).encode()
        digest = hashlib.sha256(text).hexdigest()
        key = f"prod/boot/l4-{digest}.json"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=text)
        return key, digest

    def user_data(self, key: str, digest: str) -> Path:
        file = self.root / "boot.json"
        wanted = {"schema_version": 1, "region": REGION, "bucket": BUCKET}
        file.write_text(json.dumps({**wanted, "key": key, "sha256": digest}))
        return file

    def boots(self, file: Path) -> Ended:
        """Until the node has joined, or has given up."""
        with self.running(file) as node:
            return node.until(JOINED)

    @contextmanager
    def running(self, file: Path) -> Iterator[Running]:
        program = "import boot, pathlib, sys; boot.STATE = pathlib.Path(sys.argv[1]);"
        program += "sys.exit(boot.main(sys.argv[2:]))"
        with subprocess.Popen(
            [sys.executable, "-c", program, str(self.root / "state"), str(file)],
            cwd=SERVICE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=(self.root / "said").open("w"),
            stderr=(self.root / "complained").open("w"),
        ) as process:
            try:
                yield Running(self.root, process)
            finally:
                process.kill()

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What services/host was given each time."""
        file = self.run / "runs"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))


@pytest.fixture
def machine(aws: str, site: Site, account: Any, metadata: Metadata, tmp_path: Path) -> Machine:
    s3, secrets = account("s3"), account("secretsmanager")
    s3.create_bucket(Bucket=BUCKET)
    certificate = site.authority.issue("pool-l4")
    value = {
        "schema_version": 1,
        "agents": {"nomad": {"t": "@token@"}},
        "certificate": certificate,
        "artifacts": {"folders": [MODEL], "digest": DIGEST},
    }
    secrets.create_secret(Name=SECRET, SecretString=json.dumps(value))
    iam = account("iam")
    may = [{"Effect": "Allow", "Action": action, "Resource": "*"} for action in ALLOWED]
    policy = json.dumps({"Version": "2012-10-17", "Statement": may})
    role = "slipway-prod-pool-l4"
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=policy)
    found = site.credentials(role)
    metadata.texts.update(
        {
            "instance-id": INSTANCE,
            "local-ipv4": "10.40.3.7",
            "iam/security-credentials/": role,
            f"iam/security-credentials/{role}": json.dumps(
                {
                    "AccessKeyId": found.access_key,
                    "SecretAccessKey": found.secret_key,
                    "Token": found.token,
                }
            ),
        }
    )
    root = tmp_path / "machine"
    root.mkdir()
    return Machine(root, site, s3)


ALLOWED = ("secretsmanager:GetSecretValue", "s3:GetObject")


def test_an_instance_becomes_a_node_of_its_pool(machine: Machine) -> None:
    file = machine.user_data(*machine.document())
    enforce(machine.site.aws)
    done = machine.boots(file)
    assert done.returncode == 0, done.stderr
    (run,) = machine.runs
    document = json.loads(run["SLIPWAY_DOCUMENT"])
    assert document["host"] == "l4-0123456789abcdef0"
    assert document["agents"][0]["configuration"]["meta"]["address"] == "10.40.3.7"
    assert run["introduction"] == "jwt of l4-0123456789abcdef0"
    assert run["secrets"]["agents"] == {"nomad": {"t": "@token@"}}
    assert run["arguments"] == ["apply"]
    assert run["SLIPWAY_CACHE"] == str(machine.folder)
    for artifact in (*machine.artifacts, MODEL):
        assert (machine.folder / artifact).is_dir()
    assert [path.name for path in machine.folder.glob(".partial*")] == []


def test_its_next_boot_needs_no_introduction_and_fetches_nothing_again(machine: Machine) -> None:
    file = machine.user_data(*machine.document())
    machine.boots(file)
    for artifact in machine.artifacts:
        machine.put(artifact, cut=True)  # whoever fetches one fails
    done = machine.boots(file)
    assert done.returncode == 0, done.stderr
    assert [run["introduction"] for run in machine.runs] == ["jwt of l4-0123456789abcdef0", ""]
    assert len([each for each in machine.site.asked if "NodeName" in each]) == 1


def test_another_document_than_the_user_data_names_is_not_used(machine: Machine) -> None:
    key, digest = machine.document()
    machine.s3.put_object(Bucket=BUCKET, Key=key, Body=b'{"schema_version": 1}')
    done = machine.boots(machine.user_data(key, digest))
    assert (done.returncode, machine.runs) == (1, [])
    assert f"the user data says {digest}" in done.stderr
    assert not machine.folder.exists()


def test_an_archive_that_was_cut_off_leaves_nothing_and_is_fetched_again(machine: Machine) -> None:
    file = machine.user_data(*machine.document())
    machine.put(HOST, cut=True)
    done = machine.boots(file)
    assert (done.returncode, machine.runs) == (1, [])
    assert "has ended too early" in done.stderr
    assert not (machine.folder / HOST).exists()
    assert [path.name for path in machine.folder.glob(".partial*")] == []
    machine.put(HOST)
    assert machine.boots(file).returncode == 0


def test_what_the_role_may_not_read_is_said_in_the_words_of_aws(machine: Machine) -> None:
    key, digest = machine.document()
    done = machine.boots(machine.user_data(f"{key}.x", digest))
    assert done.returncode == 1
    assert "404" in done.stderr
    assert "NoSuchKey" in done.stderr


def test_an_environment_that_is_not_there_for_the_images_python_is_said_to_need_another_image(
    machine: Machine,
) -> None:
    machine.artifacts.append("envs/vllm-0123456789ab")
    done = machine.boots(machine.user_data(*machine.document()))
    assert (done.returncode, machine.runs) == (1, [])
    assert f"this image has Python {PYTHON}; engines need" in done.stderr


def test_a_refusal_to_introduce_is_passed_on_and_nothing_is_applied(machine: Machine) -> None:
    file = machine.user_data(*machine.document(environment="test"))
    done = machine.boots(file)
    assert (done.returncode, machine.runs) == (1, [])
    assert "the request is signed for environment" in done.stderr


def test_an_introducer_that_is_away_is_passed_over(machine: Machine) -> None:
    port = machine.site.server.server_port
    addresses = ["https://127.0.0.1:9", f"https://127.0.0.1:{port}", "https://127.0.0.1:10"]
    introducers = {"addresses": addresses, "server_name": NAME}
    done = machine.boots(machine.user_data(*machine.document(introducers=introducers)))
    assert done.returncode == 0, done.stderr


def test_an_introducer_with_another_name_is_not_trusted(machine: Machine) -> None:
    port = machine.site.server.server_port
    introducers = {"addresses": [f"https://127.0.0.1:{port}"], "server_name": "envoy.prod.slipway"}
    done = machine.boots(machine.user_data(*machine.document(introducers=introducers)))
    assert (done.returncode, machine.site.asked) == (1, [])
    assert "no introducer helps this node" in done.stderr


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}'])
def test_a_wrong_file_is_another_exit_code(machine: Machine, text: str) -> None:
    file = machine.root / "boot.json"
    file.write_text(text)
    assert machine.boots(file).returncode == 2


def test_no_secret_is_printed_and_what_is_kept_is_private(machine: Machine) -> None:
    done = machine.boots(machine.user_data(*machine.document()))
    (run,) = machine.runs
    key = run["secrets"]["certificate"]["key.pem"]
    for text in (done.stdout, done.stderr):
        for secret in (key, "jwt of", "PRIVATE KEY", "Signature="):
            assert secret not in text
    left = [path for path in machine.root.rglob("*") if path.is_file()]
    texts = {path: path.read_bytes() for path in left if path.name != "runs"}
    assert not [path for path, text in texts.items() if b"PRIVATE KEY" in text]
    assert stat.S_IMODE((machine.root / "state").stat().st_mode) == 0o700
