"""Fixed hosts of AWS on the test bed: `up` makes their keys, secrets, roles and user data, and each
machine boots from the latter, as cloud-init would do it."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from components.aws_hosts.access import role_name, secret_name
from tests.hosts.aws_cloud import (
    ENDPOINT,
    PLAYED,
    REGION,
    SETTINGS,
    Cloud,
    aws_environment,
    run_cloud_config,
    use_cloud,
)
from tests.hosts.bed import Bed, Host
from tests.hosts.environment import NAME, Checkout, Folders
from tests.waiting import HANG_S, until

UNIT = "slipway-host-key.service"


@dataclass(kw_only=True)
class FixedHosts:
    """Machines of AWS at the addresses of the bed, by the names of their hosts."""

    cloud: Cloud
    checkout: Checkout
    serial: Iterator[int] = field(default_factory=lambda: itertools.count(0xF00))

    @property
    def bed(self) -> Bed:
        return self.cloud.bed

    def boot(self, name: str, up: subprocess.Popen[str] | None = None) -> None:
        """As AWS starts a new instance in the place of this host, once there is user data for
        it."""
        text = self.cloud.user_data(name, up)
        host = self.bed.hosts[name]
        use_cloud(host)
        self.describe(host)
        run_modules(host, text)

    def log(self, name: str) -> str:
        """What the unit that fetches the key has said since the machine started."""
        return self.bed.hosts[name].ssh(f"journalctl --boot -u {UNIT} -o cat")

    def lose(self, *names: str) -> None:
        for name in names:
            self.bed.hosts.pop(name).end()

    def start(self, *names: str, until_made_by: subprocess.Popen[str] | None = None) -> None:
        """Machines with empty disks, as soon as there is user data for them."""
        for name in names:
            self.cloud.user_data(name, until_made_by)
            self.bed.start(name)
        self.bed.wait_until_ready()
        for name in names:
            self.boot(name)

    def terminate(self, *names: str) -> None:
        """Loses machines, and AWS says so: the next update that asks for them makes others."""
        self.lose(*names)
        for name in names:
            (self.cloud.folder / f"{name}.user-data").unlink()
        folder = self.checkout.folder
        program = "tests/aws/gone_machines.py"
        subprocess.run(
            [folder / ".venv/bin/python", "-P", program, NAME, *names],
            cwd=folder,
            env={**self.checkout.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}"},
            capture_output=True,
            check=True,
            timeout=HANG_S,
        )

    def describe(self, host: Host) -> None:
        """Metadata of an instance that there was not before, with its host's role."""
        instance = f"i-{next(self.serial):017x}"
        self.cloud.describe(host, instance, role_name(NAME, host.name))

    def trust(self) -> None:
        """The bed's own way to the hosts knows them by the keys that `up` has made, too."""
        names = {address: name for name, address in self.bed.addresses.items()}
        with self.bed.known_hosts.open("a") as known:
            for address, key in self.known().items():
                known.write(f"{names[address]},{address} {key}\n")

    def known_key(self, name: str) -> str:
        """The public key by which operators know the host: "ssh-ed25519 AAAA…"."""
        return self.known()[self.bed.addresses[name]]

    def known(self) -> dict[str, str]:
        """The public keys that `up` has written, by address."""
        lines = (self.checkout.folder / "known_hosts").read_text().splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def secret(self, name: str) -> Mapping[str, str]:
        """Of the host, from AWS Secrets Manager."""
        program = (
            "import boto3, sys; print(boto3.client('secretsmanager', endpoint_url=sys.argv[1],"
            f" region_name='{REGION}', aws_access_key_id='operator',"
            " aws_secret_access_key='operator')"
            ".get_secret_value(SecretId=sys.argv[2])['SecretString'])"
        )
        done = subprocess.run(
            [str(self.cloud.python), "-c", program, ENDPOINT, secret_name(NAME, name)],
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG_S,
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found

    def until_it_shows_its_key(self, name: str) -> None:
        wanted = self.known_key(name)
        until(lambda: shown_keys(self.bed.addresses[name]) == [wanted])


def shown_keys(address: str) -> list[str]:
    """Every public key that the SSH server there shows to whoever asks."""
    done = subprocess.run(
        ["ssh-keyscan", "-T", "5", address], capture_output=True, text=True, check=False
    )
    return [line.split(" ", 1)[1] for line in done.stdout.splitlines() if not line.startswith("#")]


def run_modules(host: Host, text: str) -> None:
    """The modules of cloud-init that the user data of a fixed host uses, in their order: its users,
    before the others that aws_cloud.py plays. An image's own key is not made again: the bed has
    made one."""
    configuration = yaml.safe_load(text)
    (user,) = configuration["users"]
    assert user["name"] == "root"
    assert configuration["hostname"] == host.name
    assert not configuration["disable_root"]
    keys = "".join(f"{key}\n" for key in user["ssh_authorized_keys"])
    host.ssh("cat > /root/.ssh/authorized_keys", keys)
    run_cloud_config(host, text)


@contextmanager
def fixed_hosts(
    cloud: Cloud,
    tmp_path_factory: Folders,
    *,
    servers: int,
    pools: Mapping[str, Any],
    models: Mapping[str, Mapping[str, int]],
) -> Iterator[FixedHosts]:
    """An environment that is not up yet: nothing knows a key of its hosts, and no host the key of
    its operators."""
    key = tmp_path_factory.mktemp("operators") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with aws_environment(cloud, tmp_path_factory, pools=pools, models=models) as made:
        targets = made.folder / "stacks" / "targets"
        shutil.copy(PLAYED / "bed_target.py", targets / "bed_pools.py")
        shutil.copy(PLAYED / "fixed_hosts_target.py", targets / "aws.py")
        (made.folder / "known_hosts").unlink()
        made.environ["BED_FIXED_HOSTS"] = str(PLAYED / "fixed_hosts.py")
        made.put("servers", servers)
        made.put("ssh", {"known_hosts": "known_hosts", "key": str(key)})
        keys = [each.with_suffix(".pub").read_text().strip() for each in (key, cloud.bed.key)]
        zones = [f"{REGION}{letter}" for letter in "abc"[:servers]]
        made.put("aws", {**SETTINGS["aws"], "zones": zones, "authorized_keys": keys})
        made.remove("host_key_seed")
        yield FixedHosts(cloud=cloud, checkout=made)
