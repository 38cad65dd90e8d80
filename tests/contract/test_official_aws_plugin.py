"""The components of AWS with Pulumi's official `aws` plugin, against moto. Skipped where the plugin
is not installed; the program itself is tried everywhere."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.pulumi.cloud_plugins import program_of, version_of
from cli.pulumi.cloud_sdks import make_sdk
from stacks.recording import Recording, record
from stacks.targets import load
from tests.components.sdk_inputs import deviations
from tests.contract.stack import Stack
from tests.waiting import HANG_S
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.progress import silent
from toolchain.settings import default_cache

CHECKOUT = Path(__file__).parents[2]
PLAYED = CHECKOUT / "tests" / "aws"
ADDRESS, REGION = "127.0.0.1", "us-east-1"
PROGRAM = """
import sys

sys.path[:0] = [checkout, f"{checkout}/src"]

from stacks.targets import load

load("aws")
from tests.contract.aws_program import build

build(endpoint)
"""
# Of the whole program: what AWS has to have after `up`.
CREATED = {
    "aws:autoscaling/group:Group": 1,
    "aws:autoscaling/lifecycleHook:LifecycleHook": 2,
    "aws:ec2/launchTemplate:LaunchTemplate": 1,
    "aws:ec2/subnet:Subnet": 9,
    "aws:ec2/vpc:Vpc": 1,
    "aws:ec2/vpcEndpoint:VpcEndpoint": 4,
    "aws:iam/instanceProfile:InstanceProfile": 1,
    "aws:iam/role:Role": 1,
    "aws:iam/rolePolicy:RolePolicy": 1,
    "aws:s3/bucket:Bucket": 1,
    "aws:secretsmanager/secret:Secret": 1,
}
NOT_PLAYED = ("PlacementGroup", "InstanceConnectEndpoint", "Instance")  # by moto, or not here


@dataclass(frozen=True, kw_only=True)
class Moto:
    endpoint: str
    python: Path

    def listing(self) -> dict[str, list[str]]:
        """What the account has, by kind."""
        done = subprocess.run(
            [self.python, PLAYED / "listing.py", self.endpoint, REGION],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, list[str]] = json.loads(done.stdout)
        return found


@contextmanager
def running_moto(log: Path) -> Iterator[Moto]:
    """With an empty account."""
    requirements = CHECKOUT / "services" / "aws" / "requirements-test.txt"
    job = EnvironmentJob(name="aws-test", requirements=requirements)
    python = prepare([job], default_cache())["aws-test"] / "bin" / "python"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [python, PLAYED / "api.py", ADDRESS, "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            endpoint = process.stdout.readline().strip()
            assert endpoint, log.read_text()[-3000:]
            yield Moto(endpoint=endpoint, python=python)
        finally:
            process.kill()


@pytest.fixture
def moto(tmp_path: Path) -> Iterator[Moto]:
    with running_moto(tmp_path / "moto.log") as found:
        yield found


@pytest.fixture
def official_plugin(pulumi_home: Path) -> None:
    """Puts the official plugin where the stack looks for plugins; skips without it."""
    version = version_of("aws", CHECKOUT)
    found = program_of("aws", version, os.environ)
    if found is None:
        pytest.skip(
            f"no pulumi-resource-aws {version}: pulumi plugin install resource aws v{version}, or"
            " put it on PATH"
        )
    place = pulumi_home / "plugins" / f"resource-aws-v{version}" / found.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(found)


@pytest.fixture(scope="module")
def sdk() -> None:
    """AWS's SDK, which is not in the root environment."""
    make_sdk("aws", CHECKOUT, default_cache(), silent)
    load("aws")


def recorded() -> Recording:
    """The program's resources, as a preview has them."""
    lines = [f"checkout = {str(CHECKOUT)!r}", "endpoint = 'http://127.0.0.1:9'", PROGRAM]
    return record(lambda: exec("\n".join(lines), {}))


@pytest.mark.usefixtures("sdk")
def test_the_program_registers_what_moto_can_play() -> None:
    found = recorded()
    in_aws = found.of_type("aws:")
    counted = Counter(each.type for each in in_aws)
    assert {type_: counted[type_] for type_ in CREATED} == CREATED
    assert not [type_ for type_ in counted if type_.rpartition(":")[2] in NOT_PLAYED]
    assert {each.provider for each in in_aws} == {"aws"}
    assert not [each.name for each in in_aws if each.protect]  # `destroy` would refuse
    asked = [*in_aws, *found.of_type("pulumi:providers:aws")]
    assert [each for resource in asked for each in deviations(resource)] == []


@pytest.mark.binaries
def test_the_listing_shows_what_is_left(moto: Moto) -> None:
    empty = moto.listing()
    assert moto.listing() == empty
    left = "import boto3, sys; boto3.client('iam', endpoint_url=sys.argv[1]).create_role("
    left += "RoleName='left', AssumeRolePolicyDocument='{}')"
    keys = {f"AWS_{name}": "operator" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
    variables = {**keys, "AWS_DEFAULT_REGION": REGION}
    subprocess.run([moto.python, "-c", left, moto.endpoint], env=variables, check=True)
    assert moto.listing() == {**empty, "Roles": ["left"]}


@pytest.mark.binaries
@pytest.mark.usefixtures("official_plugin", "sdk")
def test_resources_are_created_stay_as_they_are_and_are_deleted(stack: Stack, moto: Moto) -> None:
    empty = moto.listing()
    stack.program(PROGRAM, checkout=str(CHECKOUT), endpoint=moto.endpoint)
    created = stack.up()
    assert created.ok, created.output
    types = Counter(each["type"] for each in stack.state().values())
    assert {type_: types[type_] for type_ in CREATED} == CREATED
    assert moto.listing() != empty

    again = stack.up()
    assert again.ok, again.output
    assert again.steps == []

    deleted = stack.destroy()
    assert deleted.ok, deleted.output
    assert moto.listing() == empty
