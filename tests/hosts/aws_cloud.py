"""AWS on the test bed: moto as its API, AWS's own mock of the metadata service in each instance's
network, and hosts that boot from rendered user data."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import yaml

from components.aws_pool.names import group_name, role_name
from tests.aws.metadata_mock import Metadata, metadata_mock
from tests.hosts.bed import FOLDER, MACHINE, Bed, Host, first_process
from tests.hosts.environment import NAME, Checkout, Folders, environment
from tests.live.environments import copy_tree
from tests.waiting import HANG_S, until
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
PLAYED = ROOT / "tests" / "aws"
PORT = 5000
ENDPOINT = f"http://{MACHINE}:{PORT}"
LIFECYCLE = f"{ENDPOINT}/bed/lifecycle"  # of tests/aws/api.py alone
REGION, BUCKET, ACCOUNT = "us-east-1", "slipway-bed", "123456789012"
METADATA = "169.254.169.254"
ENDS_WITH_THE_TEST = ("setpriv", "--pdeathsig", "KILL")  # also with one that is killed
LISTENS = "FEA9FEA9:0050 00000000:0000 0A"  # at METADATA's port 80, in /proc/PID/net/tcp
# Where agents and tasks of a host find AWS: systemd passes it to every unit.
SYSTEMD = f"[Manager]\nDefaultEnvironment=AWS_ENDPOINT_URL={ENDPOINT}\n"
SETTINGS: dict[str, Any] = {
    "target": "aws",
    "network": {"cidr": "10.77.0.0/19"},
    "aws": {
        "region": REGION,
        "zones": [f"{REGION}a"],
        "images": {"hosts": "ami-0123456789abcdef0"},
        "bucket": BUCKET,
        "authorized_keys": ["ssh-ed25519 " + "A" * 68],
    },
    "host_key_seed": "of the bed, whose hosts have keys already",
    "gateway": {"pool": "edge"},
}
FIXED = {"server-0": "10.77.0.4", "edge-0": "10.77.0.16"}  # where the plan places them


@dataclass(kw_only=True)
class Described:
    """A host's metadata service: the process, and what it says."""

    process: subprocess.Popen[bytes]
    metadata: Metadata


@dataclass(kw_only=True)
class Cloud:
    """`folder` has the user data of each pool, once an `up` has made it."""

    bed: Bed
    folder: Path
    python: Path  # of the environment with moto and AWS's own library
    mock: Path  # the program of metadata services
    instances: dict[str, str] = field(default_factory=dict)  # host of the bed -> instance
    pools: dict[str, str] = field(default_factory=dict)  # host of the bed -> pool
    described: dict[str, Described] = field(default_factory=dict)  # by the host's name

    def user_data(self, pool: str, up: subprocess.Popen[str] | None = None) -> str:
        """Once there is one, or unless `up` ends before."""
        file = self.folder / f"{pool}.user-data"
        until(lambda: file.exists() or (up is not None and up.poll() is not None))
        assert file.exists(), up.communicate()[0][-6000:] if up else ""
        return file.read_text()

    def boot(self, host: Host, pool: str, instance: str, *, role: str = "") -> None:
        """As AWS starts an instance of a pool: metadata, and what cloud-init does with the user
        data. The agents then start by themselves."""
        self.instances[host.name], self.pools[host.name] = instance, pool
        self.describe(host, instance, role or role_name(NAME, pool))
        use_cloud(host)
        run_cloud_config(host, self.user_data(pool))

    def describe(self, host: Host, instance: str, role: str) -> None:
        """Starts the host's metadata service, with fresh credentials of the role."""
        metadata = Metadata(
            instance=instance,
            address=host.address,
            account=ACCOUNT,
            region=REGION,
            role=role,
            credentials=json.loads(self.run_role("assume", role, instance)) if role else {},
        )
        self._say(host, metadata)

    def terminate(self, host: Host) -> None:
        """The group of the instance ends it: so its metadata says from now on."""
        self._say(host, replace(self.described[host.name].metadata, ends=True))

    def recommend_rebalance(self, host: Host) -> None:
        """EC2 expects to interrupt the spot instance."""
        self._say(host, replace(self.described[host.name].metadata, rebalance=_from_now(0)))

    def spot_notice(self, host: Host, in_s: float) -> None:
        """EC2 will end the spot instance at that time. (The bed does not.)"""
        self._say(host, replace(self.described[host.name].metadata, notice=_from_now(in_s)))

    def open_lifecycle_action(self, instance: str, pool: str, hook: str) -> None:
        """The instance waits at a hook of its group until its action is completed."""
        wanted = {"instance": instance, "group": group_name(NAME, pool), "hook": hook}
        httpx.post(LIFECYCLE, json=wanted, timeout=HANG_S).raise_for_status()

    def lifecycle(self) -> list[dict[str, str]]:
        """What instances have said of their actions, in order: `call` is "heartbeat" or
        "completion"; instance, group, hook, and the result of a completion."""
        answer = httpx.get(LIFECYCLE, timeout=HANG_S).raise_for_status()
        said: list[dict[str, str]] = answer.json()
        return said

    def copy_role(self, role: str, other: str) -> None:
        """A role that may do what that one may."""
        self.run_role("copy", role, other)

    def run_role(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.python), str(PLAYED / "role.py"), *arguments],
            env={**os.environ, "AWS_ENDPOINT_URL": ENDPOINT},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _say(self, host: Host, metadata: Metadata) -> None:
        """Ends the host's metadata service, if it has one, and starts one that says this."""
        self._end(host.name)
        file = self.folder / f"{host.name}.metadata.json"
        file.write_text(json.dumps(metadata.configuration(METADATA, 80)))
        inside = ("nsenter", f"--net=/proc/{first_process(host.process)}/ns/net")
        address = ("address", "replace", f"{METADATA}/32", "dev", "lo")
        subprocess.run([*inside, "ip", *address], check=True)
        log = self.folder / f"{host.name}.metadata.log"
        process = subprocess.Popen(
            [*ENDS_WITH_THE_TEST, *inside, str(self.mock), "--config-file", str(file)],
            stdout=log.open("a"),
            stderr=subprocess.STDOUT,
        )
        self.described[host.name] = Described(process=process, metadata=metadata)
        sockets = Path(f"/proc/{process.pid}/net/tcp")  # of the network that it is in by then
        until(lambda: process.poll() is not None or LISTENS in sockets.read_text(), log=log)
        assert process.poll() is None, log.read_text()[-3000:]

    def _end(self, name: str) -> None:
        if name in self.described:
            process = self.described.pop(name).process
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends every metadata service."""
        for name in list(self.described):
            self._end(name)


def _from_now(in_s: float) -> str:
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=in_s)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def use_cloud(host: Host) -> None:
    host.ssh(
        "mkdir -p /etc/systemd/system.conf.d && cat > /etc/systemd/system.conf.d/aws.conf"
        " && systemctl daemon-reexec",
        SYSTEMD,
    )


def run_cloud_config(host: Host, text: str) -> None:
    """The modules of cloud-init that the user data uses: write_files, and then runcmd."""
    header, _, body = text.partition("\n")
    assert header == "#cloud-config"
    configuration = yaml.safe_load(body)
    for each in configuration["write_files"]:
        path = each["path"]
        host.ssh(
            f"mkdir -p $(dirname {path}) && cat > {path} && chmod {each['permissions']} {path}",
            each["content"],
        )
    for command in configuration["runcmd"]:
        host.ssh(" ".join(command))


@contextmanager
def cloud_of(bed: Bed, folder: Path) -> Iterator[Cloud]:
    """AWS for the hosts of a bed."""
    requirements = ROOT / "services" / "aws" / "requirements-test.txt"
    job = EnvironmentJob(name="aws-test", requirements=requirements)
    python = prepare([job], default_cache())["aws-test"] / "bin" / "python"
    with socket.socket() as probe:
        assert probe.connect_ex((MACHINE, PORT)), f"somebody else plays AWS at {ENDPOINT}"
    with ExitStack() as services:
        api = services.enter_context(
            subprocess.Popen(
                [*ENDS_WITH_THE_TEST, str(python), str(PLAYED / "api.py"), MACHINE, str(PORT)],
                stdout=subprocess.DEVNULL,
                stderr=(folder / "api.log").open("w"),
            )
        )
        services.callback(api.kill)

        def answers() -> bool:
            try:
                return httpx.get(f"{ENDPOINT}/moto-api/").status_code == 200
            except httpx.HTTPError:
                return False

        until(answers)
        httpx.put(f"{ENDPOINT}/{BUCKET}", timeout=HANG_S).raise_for_status()
        cloud = Cloud(bed=bed, folder=folder, python=python, mock=metadata_mock())
        services.callback(cloud.close)
        yield cloud


@contextmanager
def cloud_of_gateway(bed: Bed, folder: Path) -> Iterator[Cloud]:
    """AWS for the hosts of a bed whose gateway's host introduces nodes."""
    with cloud_of(bed, folder) as made:
        edge = bed.hosts["edge-0"]
        made.describe(edge, "i-0000000000000edge", f"slipway-{NAME}-edge-0")
        use_cloud(edge)
        yield made


@contextmanager
def aws_environment(
    cloud: Cloud,
    tmp_path_factory: Folders,
    *,
    pools: Mapping[str, Any],
    models: Mapping[str, Mapping[str, int]],
) -> Iterator[Checkout]:
    """An environment of target aws whose fixed hosts are the bed's."""
    programs = tmp_path_factory.mktemp("programs")
    for name, command in (
        ("pulumi-resource-aws", "exit 1"),  # the bed's program asks it for nothing
        # aws --region R SERVICE …
        ("aws", f'exec {cloud.python} {PLAYED}/$(echo $3 | sed s/s3api/s3/)_command.py "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{command}\n")
        (programs / name).chmod(0o755)

    def files(folder: Path) -> None:
        copy_tree(folder)
        shutil.copy(PLAYED / "bed_target.py", folder / "stacks/targets/aws.py")

    with environment(cloud.bed, tmp_path_factory, models=models, files=files) as made:
        config = {
            **SETTINGS,
            "ssh": {"known_hosts": "known_hosts", "key": str(FOLDER / "key")},
            "pools": {"edge": {"kind": "aws", "instance": "m7i.2xlarge", "nodes": 1}, **pools},
            "models": {name: {"pool": "cpu", "replicas": dict(n)} for name, n in models.items()},
        }
        document = {"config": {f"slipway:{key}": value for key, value in config.items()}}
        made.settings.write_text(yaml.safe_dump(document))
        made.environ.update(
            PATH=f"{programs}:{os.environ['PATH']}",
            AWS_ENDPOINT_URL=ENDPOINT,
            # For a real AWS command line, which a version manager may put before the stand-in.
            AWS_ACCESS_KEY_ID="operator",
            AWS_SECRET_ACCESS_KEY="operator",
            BED_PYTHON=str(cloud.python),
            BED_CLOUD=str(PLAYED / "cloud.py"),
            BED_FOLDER=str(cloud.folder),
        )
        yield made
