"""The questions of `slipway init`: asked on a terminal for what no option says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from rich.prompt import Prompt

from cli.console import notes, say
from cli.environment import must_be_a_name
from cli.errors import WRONG_INPUT, CliError
from cli.scaffold.options import expanded, least_and_most, whole
from cli.scaffold.starting import other_networks
from slipway.config.aws_cloud import ZONE_LETTERS
from slipway.config.catalog import load_catalog
from slipway.config.document import read_text
from slipway.config.environment import TARGETS
from slipway.config.errors import ConfigError, suggestion
from slipway.scaffold.networks import free_dev_network
from slipway.scaffold.stacks import (
    Answers,
    AwsAnswers,
    Bought,
    Cloud,
    DevAnswers,
    Host,
    MetalAnswers,
)

Value = TypeVar("Value")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
DEFAULT_NODES = 2
DEFAULT_MODEL = "smollm2-135m"
DEBIAN = "/aws/service/debian/release/12/latest/amd64"  # AWS's parameter for Debian 12
ZONES = 3  # of fixed hosts: a majority of servers survives the loss of one
PUBLIC = "name a file with a public key, such as ~/.ssh/id_ed25519.pub"
VPC, REGION = "10.60.0.0/16", "us-east-1"
EDGE_INSTANCE = "m7i.2xlarge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options, as they were written."""

    name: str | None = None
    target: str | None = None
    network: str | None = None
    models: tuple[str, ...] = ()
    nodes: int | None = None
    servers: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    memory: str | None = None
    cores: int | None = None
    accelerator: str | None = None
    accelerators_per_node: int | None = None
    usd_per_hour: float | None = None
    ssh_key: str | None = None
    ssh_user: str | None = None
    pools: tuple[str, ...] = ()
    region: str | None = None
    bucket: str | None = None
    nvidia_image: str | None = None
    authorized_keys: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


Model = tuple[str | None, str]  # (name for clients, model)


def ask(given: Given, checkout: Path) -> tuple[Answers, Sequence[Model]]:
    """The answers, and the models to serve. CliError for an option that is wrong, or missing where
    nobody can be asked."""
    target = _answer(given.target, "--target", "Target (dev, metal or aws)", "dev", _target)
    name = _answer(given.name, "--stack", "Name of the environment", target, _name)
    must_be_a_name(name)
    answers = _TARGETS[target](given, name, checkout)
    if given.models:
        return answers, [_model(each) for each in given.models]
    default = DEFAULT_MODEL if target == "dev" else None
    text = _answer(None, "--model", "Models to serve, separated by spaces", default, _words)
    return answers, [_model(each) for each in text]


def _dev(given: Given, name: str, checkout: Path) -> DevAnswers:
    free = free_dev_network(other_networks(checkout, name))
    return DevAnswers(
        name=name,
        network=given.network or _optional("Network on this machine", free, str) or free,
        nodes=given.nodes
        or _optional("Nodes for replicas", str(DEFAULT_NODES), _count)
        or DEFAULT_NODES,
        salt=_salt(checkout),
    )


def _metal(given: Given, name: str, checkout: Path) -> MetalAnswers:
    network = _answer(given.network, "--network", "Network of the machines (CIDR)", None, str)
    servers = _hosts(given.servers, "--server", "Servers, 1 or 3 (NAME=ADDRESS …)")
    hosts = _hosts(given.hosts, "--host", "Hosts of replicas (NAME=ADDRESS …)")
    gateways = _hosts(given.gateways, "--gateway-host", "Hosts of the gateway (NAME=ADDRESS …)")
    accelerator = given.accelerator
    if accelerator is None:
        accelerator = _optional("Accelerator of each host of replicas (empty: none)", "", str)
    per_node = given.accelerators_per_node
    if accelerator:
        known = load_catalog(checkout).accelerators
        accelerator = _known(accelerator, known, "--accelerator", "catalog/accelerators.yaml")
        default = str(known[accelerator].devices_per_node or 8)
        per_node = per_node or _optional("Accelerators of each host", default, _count)
    memory = _answer(given.memory, "--memory", "Memory of each host, e.g. 64GiB", None, str)
    cores = None if given.cores is None else str(given.cores)
    return MetalAnswers(
        name=name,
        network=network,
        servers=servers,
        hosts=hosts,
        gateways=gateways,
        memory=memory,
        cores=_answer(cores, "--cores", "Cores of each host", None, _count),
        accelerator=accelerator or "",
        accelerators_per_node=per_node or 0,
        usd_per_hour=None if given.usd_per_hour is None else whole(given.usd_per_hour),
        ssh_key=given.ssh_key or "",
        ssh_user=given.ssh_user or "",
    )


def _aws(given: Given, name: str, checkout: Path) -> AwsAnswers:
    network = given.network or _optional("Network of the VPC", VPC, str) or VPC
    if given.pools:
        pools = [_bought(each, checkout) for each in given.pools]
    else:
        question = "Pools of replicas (NAME=INSTANCE:MIN..MAX …)"
        texts = _answer(None, "--pool", question, "l4=g6.xlarge:2..8", _words)
        pools = [_bought(each, checkout) for each in texts]
    bucket = given.bucket
    if bucket is None:
        bucket = _optional("Bucket for what hosts fetch (empty: plan only)", "", str)
    return AwsAnswers(
        name=name,
        network=network,
        pools=pools,
        edge_instance=EDGE_INSTANCE,
        cloud=_cloud(given, bucket) if bucket else None,
    )


def _cloud(given: Given, bucket: str) -> Cloud:
    region = given.region or _optional("Region", REGION, str) or REGION
    keys: Sequence[str] = given.authorized_keys or _answer(
        None, "--authorized-key", "Files with the operators' public keys", None, _words
    )
    image = given.nvidia_image
    return Cloud(
        region=region,
        zones=[f"{region}{letter}" for letter in ZONE_LETTERS[:ZONES]],
        hosts_image=DEBIAN,
        nvidia_image=_answer(
            image, "--nvidia-image", "Image of instances with accelerators", None, str
        ),
        bucket=bucket,
        authorized_keys=[_public_key(each) for each in keys],
        clients=given.clients,
    )


_TARGETS: Mapping[str, Callable[[Given, str, Path], Answers]] = {
    "dev": _dev,
    "metal": _metal,
    "aws": _aws,
}


def _answer(
    given: str | None,
    option: str,
    question: str,
    default: str | None,
    read: Callable[[str], Value],
) -> Value:
    """The option, else the answer on a terminal, asked again until it can be read. CliError
    otherwise."""
    if given is not None:
        try:
            return read(given)
        except ValueError as error:
            message, fix = error.args
            raise CliError(f"{option}: {message}", fix=fix, exit_code=WRONG_INPUT) from None
    if not sys.stdin.isatty():
        raise CliError(
            f"{option} is missing, and stdin is not a terminal that could be asked",
            fix=f"add {option}" + (f", e.g. {option} {default}" if default else ""),
            exit_code=WRONG_INPUT,
        )
    while True:
        text = Prompt.ask(question, default=default, console=notes)
        try:
            return read((text or "").strip())
        except ValueError as error:
            message, fix = error.args
            say(f"{message}: {fix}", style="red")


def _optional(question: str, default: str, read: Callable[[str], Value]) -> Value | None:
    """Asked on a terminal; elsewhere what the default means."""
    if not sys.stdin.isatty():
        return read(default) if default else None
    return _answer(None, "", question, default, read)


def _target(text: str) -> str:
    if text not in TARGETS:
        raise ValueError(f'"{text}" is no target', suggestion(text, TARGETS))
    return text


def _name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ValueError(
            f'"{text}" cannot be the name of an environment', "use letters, digits and hyphens"
        )
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f'"{text}" is no number of at least 1', "write e.g. 2")
    return int(text)


def _words(text: str) -> list[str]:
    words = text.replace(",", " ").split()
    if not words:
        raise ValueError("the answer is empty", "name at least one")
    return words


def _model(text: str) -> Model:
    """ "tutor=smollm2-135m" names it for clients."""
    name, equals, model = text.partition("=")
    if equals and re.fullmatch("[a-z][a-z0-9-]*", name):
        return name, model
    return None, text


def _hosts(given: Sequence[str], option: str, question: str) -> list[Host]:
    if given:
        return [_answer(each, option, "", None, _host) for each in given]
    return _answer(None, option, question, None, lambda text: [_host(e) for e in _words(text)])


def _host(text: str) -> Host:
    name, equals, address = text.partition("=")
    if not (equals and name and address):
        raise ValueError(f'"{text}" is not a name and an address', "write e.g. worker-0=10.77.0.21")
    return Host(name=name, address=address)


def _bought(text: str, checkout: Path) -> Bought:
    match = re.fullmatch(r"([a-z][a-z0-9-]*)=([a-z0-9.-]+):([^\s@]+)(?:@([a-z0-9-]+))?", text)
    if match is None:
        raise CliError(
            f'--pool: "{text}" is not NAME=INSTANCE:MIN..MAX or NAME=INSTANCE:MIN..MAX@ZONE',
            fix="write e.g. l4=g6.xlarge:2..8",
            exit_code=WRONG_INPUT,
        )
    least, most = least_and_most(match[3], "--pool") or (1, 1)
    known = load_catalog(checkout).instances
    instance = _known(match[2], known, "--pool", "catalog/instances.yaml")
    return Bought(
        name=match[1],
        instance=instance,
        least=least,
        most=most,
        zone=match[4] or "",
        in_one_zone=known[instance].efa_interfaces > 0,
    )


def _known(text: str, known: Collection[str], option: str, where: str) -> str:
    """`text` in the spelling of `known`."""
    for name in known:
        if name.lower() == text.lower():
            return name
    raise CliError(
        f'{option}: {where} does not know "{text}"',
        fix=suggestion(text, known),
        exit_code=WRONG_INPUT,
    )


def _public_key(text: str) -> str:
    """The key in a file, or the key itself."""
    if text.startswith(("ssh-", "ecdsa-")):
        return text
    path = expanded(text)
    try:
        key = read_text(path, source=text).strip()
    except ConfigError as error:
        reason = error.problems[0].message
        raise CliError(
            f"--authorized-key: {text} {reason}", fix=PUBLIC, exit_code=WRONG_INPUT
        ) from None
    if "PRIVATE KEY" in key:
        raise CliError(
            f"--authorized-key: {text} is a private key", fix=PUBLIC, exit_code=WRONG_INPUT
        )
    return key


def _salt(checkout: Path) -> str:
    """That of the passphrase of dev environments, so that Pulumi does not write one into the new
    file."""
    path = checkout / "Pulumi.dev.yaml"
    if not path.is_file():
        return ""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return str(found.get("encryptionsalt", "")) if isinstance(found, dict) else ""
