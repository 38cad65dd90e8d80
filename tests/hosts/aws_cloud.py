"""AWS on the test bed: moto as its API, a metadata service in each instance's network, and hosts
that boot from rendered user data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

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
REGION, BUCKET, ACCOUNT = "us-east-1", "slipway-bed", "123456789012"
METADATA = "169.254.169.254"
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
class Cloud:
    """`folder` has the user data of each pool, once an `up` has made it."""

    bed: Bed
    folder: Path
    python: Path  # of the environment with moto and AWS's own library
    services: ExitStack
    instances: dict[str, str] = field(default_factory=dict)  # host of the bed -> instance

    def user_data(self, pool: str, up: subprocess.Popen[str] | None = None) -> str:
        """Once there is one, or unless `up` ends before."""
        file = self.folder / f"{pool}.user-data"
        until(lambda: file.exists() or (up is not None and up.poll() is not None))
        assert file.exists(), up.communicate()[0][-6000:] if up else ""
        return file.read_text()

    def describe(self, host: Host, instance: str, role: str) -> Path:
        """Starts the host's metadata service; returns the file that it reads."""
        file = self.folder / f"{host.name}.metadata"
        self.write(file, host, instance, role)
        pid = first_process(host.process)
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
        subprocess.run(
            [*inside, "ip", "address", "add", f"{METADATA}/32", "dev", "lo"], check=False
        )
        program = str(PLAYED / "metadata_service.py")
        command = [*inside, str(self.python), program, METADATA, str(file)]
        process = self.services.enter_context(subprocess.Popen(command))
        self.services.callback(process.kill)
        return file

    def write(self, file: Path, host: Host, instance: str, role: str) -> None:
        """The instance's metadata: who it is, and credentials of its role."""
        identity = {"accountId": ACCOUNT, "instanceId": instance, "region": REGION}
        texts = {
            "meta-data/instance-id": instance,
            "meta-data/local-ipv4": host.address,
            "dynamic/instance-identity/document": json.dumps(identity),
        }
        if role:
            texts["meta-data/iam/security-credentials/"] = role
            found = self.credentials(role, instance)
            texts[f"meta-data/iam/security-credentials/{role}"] = json.dumps(found)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(texts))
        partial.replace(file)

    def credentials(self, role: str, instance: str) -> dict[str, str]:
        program = (
            "import boto3, json, sys; role, session = sys.argv[1:];"
            f"sts = boto3.client('sts', region_name='{REGION}', endpoint_url='{ENDPOINT}',"
            " aws_access_key_id='x', aws_secret_access_key='x');"
            f"arn = 'arn:aws:iam::{ACCOUNT}:role/' + role;"
            "found = sts.assume_role(RoleArn=arn, RoleSessionName=session)['Credentials'];"
            "keys = {'AccessKeyId': 'AccessKeyId', 'SecretAccessKey': 'SecretAccessKey',"
            " 'SessionToken': 'Token'};"
            "print(json.dumps({other: found[key] for key, other in keys.items()}))"
        )
        done = subprocess.run(
            [str(self.python), "-c", program, role, instance],
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG_S,
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found

    def boot(self, host: Host, pool: str, instance: str, *, role: str = "") -> None:
        """As AWS starts an instance of a pool: metadata, and what cloud-init does with the user
        data. The agents then start by themselves."""
        self.instances[host.name] = instance
        self.describe(host, instance, role or f"slipway-{NAME}-pool-{pool}")
        use_cloud(host)
        run_cloud_config(host, self.user_data(pool))


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
    with ExitStack() as services:
        moto = services.enter_context(
            subprocess.Popen(
                [str(python), "-m", "moto.server", "-H", MACHINE, "-p", str(PORT)],
                stdout=subprocess.DEVNULL,
                stderr=(folder / "moto.log").open("w"),
            )
        )
        services.callback(moto.kill)

        def answers() -> bool:
            try:
                return httpx.get(f"{ENDPOINT}/moto-api/").status_code == 200
            except httpx.HTTPError:
                return False

        until(answers)
        httpx.put(f"{ENDPOINT}/{BUCKET}", timeout=HANG_S).raise_for_status()
        yield Cloud(bed=bed, folder=folder, python=python, services=services)


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
        ("aws", f'exec {cloud.python} {PLAYED / "s3_command.py"} "$@"'),
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
