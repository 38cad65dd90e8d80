"""What an offline preview of an environment on AWS takes, against one on listed hosts, as a table.

    .venv/bin/python bench/aws_preview.py [--pairs 5]

Both have as many servers, hosts of the gateway, workers and models; that on AWS makes its network,
its machines and their roles besides. Processor time of `slipway preview --offline` and all that it
starts, in turns; the import of AWS's SDK, measured by itself, is taken off. Exits with 1 over the
bar. A minute.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import yaml  # noqa: E402

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.live.environments import copy_tree  # noqa: E402

BAR = 1.5
TARGETS = ("metal", "aws")
MODELS, WORKERS = 12, 12
KEY = "ssh-ed25519 " + "A" * 68
# The classes of the SDK that these environments use, found as the program finds them.
IMPORT = """
import importlib, sys, time
from pathlib import Path
from stacks.targets import load
import stacks.platform, stacks.targets.metal
began_s = time.process_time()
load("aws", Path.cwd())
aws = importlib.import_module("pulumi_aws")
used = {
    "ec2": "Vpc Subnet RouteTable RouteTableAssociation VpcEndpoint SecurityGroup"
    " DefaultSecurityGroup LaunchTemplate Instance InstanceLaunchTemplateArgs",
    "vpc": "SecurityGroupIngressRule SecurityGroupEgressRule",
    "iam": "Role RolePolicy InstanceProfile",
    "secretsmanager": "Secret SecretVersion",
}
for package, names in used.items():
    [getattr(getattr(aws, package), name) for name in names.split()]
aws.Provider
print(time.process_time() - began_s)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    before = loop_factor()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        copy_tree(folder)
        write(folder)
        counts = {name: resources(folder, name) for name in TARGETS}  # warms caches, too
        sdk_s = statistics.median(import_s(folder) for _ in range(options.pairs))
        pairs = [tuple(preview_s(folder, each) for each in TARGETS) for _ in range(options.pairs)]
    metal_s, aws_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median((aws - sdk_s) / metal for metal, aws in pairs)
    lines = [
        measured_on(before),
        "",
        f"| {5 + WORKERS} hosts, {MODELS} models | metal | aws | ratio | bar |",
        "|---|---|---|---|---|",
        f"| resources | {counts['metal']} | {counts['aws']} | | |",
        f"| processor time, s | {metal_s:.2f} | {aws_s:.2f} | {ratio:.2f} without SDK | {BAR} |",
        f"| import of AWS's SDK, s | | {sdk_s:.2f} | | |",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(ratio > BAR)


def write(folder: Path) -> None:
    """Two environments and their models."""
    names = [f"bench-{number}" for number in range(MODELS)]
    for name in names:
        model = {
            "name": name,
            "source": {"s3": "s3://models/chat/", "revision": "1"},
            "engine": {
                "kind": "vllm",
                "architecture": "llama-3.2-1b",
                "max_model_len": 8192,
                "max_num_seqs": 64,
            },
        }
        (folder / f"models/{name}.yaml").write_text(yaml.safe_dump(model))
    deployed = {name: {"pool": "l4", "replicas": {"min": 1, "max": 1}} for name in names}
    common = {
        "network": {"cidr": "10.40.0.0/16"},
        "servers": 3,
        "gateway": {"pool": "edge"},
        "models": deployed,
        "ssh": {"known_hosts": "known_hosts"},
    }
    metal = {"kind": "metal", "memory": "64GiB", "cpu": 8}
    l4 = {"accelerator": "L4", "accelerators_per_node": 1, "usd_per_hour": 1.0}
    listed = {
        "server_hosts": hosts("server", 4, 3),
        "pools": {
            "edge": {**metal, "hosts": hosts("edge", 16, 2)},
            "l4": {**metal, **l4, "hosts": hosts("l4", 32, WORKERS)},
        },
    }
    cloud = {
        "aws": {
            "region": "us-east-1",
            "zones": ["us-east-1a", "us-east-1b", "us-east-1c"],
            "images": {"hosts": "ami-0123456789abcdef0", "nvidia": "ami-0123456789abcdef0"},
            "bucket": "acme-slipway",
            "authorized_keys": [KEY],
        },
        "pools": {
            "edge": {"kind": "aws", "instance": "m7i.2xlarge", "nodes": 2},
            "l4": {"kind": "aws", "instance": "g6.xlarge", "nodes": WORKERS},
        },
    }
    for target, own in (("metal", listed), ("aws", cloud)):
        settings: dict[str, Any] = {"target": target, **common, **own}
        document = {"config": {f"slipway:{key}": value for key, value in settings.items()}}
        (folder / f"Pulumi.bench-{target}.yaml").write_text(yaml.safe_dump(document))
    groups = (("server", 4, 3), ("edge", 16, 2), ("l4", 32, WORKERS))
    known = [each for group in groups for each in hosts(*group)]
    (folder / "known_hosts").write_text("".join(f"{each['address']} {KEY}\n" for each in known))


def hosts(name: str, first: int, count: int) -> list[dict[str, str]]:
    return [{"name": f"{name}-{k}", "address": f"10.40.0.{first + k}"} for k in range(count)]


def command(folder: Path, target: str) -> subprocess.CompletedProcess[str]:
    arguments = ["preview", "--offline", "--json", "-s", f"bench-{target}"]
    return subprocess.run(
        [str(folder / "slipway"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )


def resources(folder: Path, target: str) -> int:
    return len(json.loads(command(folder, target).stdout)["resources"])


def preview_s(folder: Path, target: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command(folder, target)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def import_s(folder: Path) -> float:
    """Less what the program imports for any target."""
    done = subprocess.run(
        [str(folder / ".venv/bin/python"), "-c", IMPORT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
