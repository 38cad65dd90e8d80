"""`slipway init` on copies of this checkout: what it writes plans, keeps the policies and passes a
linter; what it refuses, it refuses in one sentence, with the fix, and writes nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result
from yamllint import linter
from yamllint.config import YamlLintConfig

from cli.app import app
from cli.scaffold import joining
from cli.scaffold.judging import judge
from cli.scaffold.questions import _count
from slipway.inputs import load_inputs
from slipway.planner.platform import draft_plan
from slipway.scaffold.adding import Addition
from slipway.scaffold.request import RefusedError, Request
from slipway.scaffold.surroundings import Surroundings
from tests.unit.architectures.configs import LLAMA
from tests.unit.cli.checkouts import ROOT, files
from tests.unit.cli.conftest import Serve
from tests.unit.cli.scaffold.test_models import SIZES
from tests.unit.scaffold.environments import COMMIT

LINT = YamlLintConfig(
    "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"
)
PLACEHOLDER = re.compile(
    r"TODO|XXX|change.?me|placeholder|your-|<\w+>|example\.com|\.\.\.|…", re.IGNORECASE
)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9tDlC1bsLLQbxyuUFU1NphSfbPBRNtTVPgrAwOg0rn operators"
DEV = ["--target", "dev", "--network", "127.200.0.0/24"]
LOAD = ["--requests-per-s", "8", "--input-tokens", "800", "--output-tokens", "200"]
HOSTS = [
    *("--server", "server-0=10.90.0.1", "--server", "server-1=10.90.0.2"),
    *("--server", "server-2=10.90.0.3", "--gateway-host", "edge-0=10.90.0.21"),
    *("--gateway-host", "edge-1=10.90.0.22", "--host", "w-0=10.90.0.11"),
    *("--host", "w-1=10.90.0.12", "--host", "w-2=10.90.0.13"),
]
METAL = [
    *("--target", "metal", "--network", "10.90.0.0/24", *HOSTS, *LOAD),
    *("--memory", "512GiB", "--cores", "64", "--accelerator", "h100-80"),
    *("--accelerators-per-node", "8", "--usd-per-hour", "19"),
]
AWS = [
    *("--target", "aws", "--network", "10.60.0.0/16", "--bucket", "acme-slipway-prod"),
    *("--pool", "l4=g6.xlarge:4..12", "--pool", "h100=p5.48xlarge:2..4"),
    *("--nvidia-image", "/slipway/images/nvidia", "--authorized-key", KEY),
    *("--clients", "10.0.0.0/8", *LOAD, "--revision", COMMIT),
]
PLANNED_ONLY = [*AWS[:4], "--pool", "l4=g6.xlarge:4..12", *LOAD]


def init(*options: str) -> Result:
    return CliRunner().invoke(app, ["init", *options])


@pytest.mark.parametrize(
    ("name", "options", "models"),
    [
        pytest.param("dev-new", DEV, ["smollm2", "tutor=smollm2-135m"], id="dev"),
        pytest.param("prod-new", METAL, ["q=qwen3-8b", "l=llama-3.3-70b"], id="metal"),
        pytest.param("prod-new", AWS, ["q3=Qwen/Qwen3-14B-FP8"], id="aws"),
        pytest.param("prod-new", PLANNED_ONLY, ["chat=mistral-7b"], id="aws, to be planned only"),
    ],
)
def test_what_it_writes_plans_keeps_every_policy_and_passes_a_linter(
    copied: Path, name: str, options: Sequence[str], models: Sequence[str]
) -> None:
    asked = [option for model in models for option in ("--model", model)]
    result = init("-s", name, *options, *asked, "--yes", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["files"][0] == f"Pulumi.{name}.yaml"
    for file in document["files"]:
        text = (copied / file).read_text()
        assert [str(each) for each in linter.run(text, LINT)] == [], file
        comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
        assert comments, f"{file} has no comment"
        assert PLACEHOLDER.search(text) is None, text
    inputs = load_inputs(copied, name)
    assert len(draft_plan(inputs).models) == len(models)
    assert judge(inputs) == []


def test_without_a_terminal_and_without_yes_it_shows_the_files_and_writes_nothing(
    copied: Path,
) -> None:
    before = files(copied)
    result = init("-s", "second", *DEV, "--model", "smollm2")
    assert result.exit_code == 2
    assert "+  slipway:target: dev" in result.stderr
    assert "slipway init -s second with the same options and --yes" in result.stderr
    assert files(copied) == before


def test_a_file_that_is_there_is_shown_as_a_diff(copied: Path) -> None:
    before = (copied / "Pulumi.hosts.yaml").read_text()
    result = init("-s", "hosts", *DEV, "--model", "smollm2")
    assert "-  slipway:target: metal" in result.stderr
    assert "+  slipway:target: dev" in result.stderr
    assert (copied / "Pulumi.hosts.yaml").read_text() == before


def test_a_file_that_is_there_is_replaced_only_on_request_and_its_secrets_stay(
    copied: Path,
) -> None:
    stack = copied / "Pulumi.second.yaml"
    opens = (
        "secretsprovider: awskms://alias/acme\nencryptedkey: AQICAHg=\nencryptionsalt: v1:a=:b\n"
    )
    secret = "{secure: v1:c=}"
    before = f"{opens}config:\n  acme:token: {secret}\n  acme:a: {{b: {secret}}}\n  acme:c: d\n"
    stack.write_text(before)
    options = ["-s", "second", *DEV, "--model", "smollm2", "--yes"]
    for asked in (options, [*options, "--json"]):
        refused = init(*asked)
        assert refused.exit_code == 2
        assert "Pulumi.second.yaml is there already" in refused.stderr
        assert "add --replace" in refused.stderr
        assert stack.read_text() == before
    assert init(*options, "--replace").exit_code == 0
    after = yaml.safe_load(stack.read_text())
    wanted = yaml.safe_load(before)
    assert {key: after[key] for key in wanted if key != "config"} == yaml.safe_load(opens)
    assert after["config"]["acme:token"] == {"secure": "v1:c="}
    assert after["config"]["acme:a"] == {"b": {"secure": "v1:c="}}
    assert "acme:c" not in after["config"]
    again = init(*options[:-1])  # nothing is left to agree to
    assert again.exit_code == 0, again.output
    assert "nothing changes" in again.stderr


def test_on_a_terminal_enter_keeps_a_file_that_is_there(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied / "Pulumi.hosts.yaml").read_text()
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    options = ["init", "-s", "hosts", *DEV, "--nodes", "2", "--model", "smollm2"]
    result = CliRunner().invoke(app, options, input="\n")
    assert "+  slipway:target: dev" in result.stderr
    assert "[y/N]" in result.stderr
    assert "nothing was written" in result.stderr
    assert (copied / "Pulumi.hosts.yaml").read_text() == before


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([*DEV[:2], "--network", "127.78.0.1/24"], ["is not an IPv4 network", "127.77.0.0/24"]),
        ([*DEV[:2], "--network", "10.0.0.0/24"], ["must be inside 127.0.0.0/8", "fix: use"]),
        (["--target", "cloud"], ['"cloud" is no target', "use one of: aws, dev, metal"]),
        ([*DEV, "--nodes", "many"], ["--nodes", "valid integer"]),
        ([*DEV, "--model", "nonesuch"], ['no model "nonesuch"', "give its name on the hub"]),
        ([*DEV, "--model", "llama-3.1-8b"], ["no pool can hold", "it would fit on 1 x A10G"]),
        ([*DEV, "--model", "smollm2"], ["already serves a model named smollm2", "--name"]),
        ([*METAL, "--host", "w-0=10.90.0.14"], ["the name w-0 is given to two hosts"]),
        ([*METAL, "--host", "w-9=10.90.0.11"], ["the address 10.90.0.11 is given to two hosts"]),
        ([*METAL, "--host", "w-9"], ['"w-9" is not a name and an address', "worker-0=10.77"]),
        ([*METAL, "--host", "w-9=10.99.0.1"], ["is outside the network", "10.99.0.1"]),
        ([*METAL, "--accelerator", "H1000"], ['does not know "H1000"', "did you mean"]),
        ([*METAL, "--memory", "lots"], ["must be a size", "4GiB"]),
        ([*METAL, "--model", "qwen3-8b"], ["models/qwen3-8b.yaml is there", "--requests-per-s"]),
        ([*DEV, "--revision", COMMIT, "--model", "phi-4"], ["--revision is of one model's"]),
        ([*DEV, "--s3", "s3://a/b/", "--model", "phi-4"], ["--s3 is of one model's", "models add"]),
        ([*AWS, "--pool", "gpu"], ['"gpu" is not NAME=INSTANCE:MIN..MAX', "l4=g6.xlarge:2..8"]),
        ([*AWS, "--pool", "g=g6.huge:1..2"], ['does not know "g6.huge"', "did you mean"]),
        ([*AWS, "--region", "mars-1"], ["is not a region", "mars-1"]),
        ([*AWS, "--authorized-key", "/no/key"], ["/no/key cannot be read", "~/.ssh"]),
        ([*AWS, "--authorized-key", "~nosuch/key"], ["~nosuch is no user's home", "the path"]),
        ([*DEV, "--requests-per-s", "inf"], ["--requests-per-s", "inf is no number to plan with"]),
        ([*METAL, "--usd-per-hour", "inf"], ["--usd-per-hour", "inf is no number to plan with"]),
    ],
)
def test_a_bad_answer_is_refused_with_the_fix_and_nothing_is_written(
    copied: Path, options: Sequence[str], wanted: Sequence[str]
) -> None:
    before = files(copied)
    result = init("-s", "test-new", *options, "--model", "smollm2", "--yes")
    assert result.exit_code == 2, result.output
    said = " ".join(result.output.split())
    for text in wanted:
        assert text in said
    assert "Traceback" not in result.output
    assert files(copied) == before


def test_a_private_key_is_refused_and_not_shown(copied: Path, tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n")
    result = init("-s", "p", *AWS, "--model", "q=phi-4", "--authorized-key", str(key), "--yes")
    assert result.exit_code == 2
    assert "id_ed25519 is a private key" in result.stderr
    assert "id_ed25519.pub" in result.stderr
    assert "b3Blb" not in result.output
    assert "BEGIN" not in result.output


def test_a_digit_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="is no number of at least 1"):
        _count("²")


def test_the_examples_for_fleets_in_the_documentation_work(copied: Path) -> None:
    text = (ROOT / "docs/commands.md").read_text().replace("\\\n", " ")
    examples = re.findall(r"^\./slipway (init .*--target (?:metal|aws).*)$", text, re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        result = CliRunner().invoke(app, [*example.split(), "--json"])
        assert result.exit_code == 0, result.output
        assert "models/chat.yaml" in json.loads(result.stdout)["files"]


def test_every_model_is_looked_up_once_and_the_first_refusal_is_shown(
    copied: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = serve(
        {
            "GET /api/models/acme/chat": (200, {"sha": COMMIT}),
            f"GET /acme/chat/resolve/{COMMIT}/config.json": (200, LLAMA | SIZES),
        }
    )
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    refused: list[str] = []
    add = joining.add_model

    def counted(request: Request, surroundings: Surroundings) -> Addition:
        try:
            return add(request, surroundings)
        except RefusedError as error:
            error.message += f" ({len(refused) + 1})"
            refused.append(error.message)
            raise

    monkeypatch.setattr(joining, "add_model", counted)
    result = init("-s", "second", *DEV, "--model", "acme/chat", "--model", "own=llama-3.1-8b")
    assert result.exit_code == 2
    assert len(refused) == 2  # also with the smallest numbers of replicas
    assert refused[0] in " ".join(result.stderr.split())
    assert len(hub.asked) == len(set(hub.asked)) == 2


def test_a_network_of_another_environment_is_refused_with_a_free_one(copied: Path) -> None:
    taken = load_inputs(copied, "dev").environment.settings.network.cidr
    result = init("-s", "second", "--target", "dev", "--network", taken, "--model", "smollm2")
    assert result.exit_code == 2
    assert f"overlaps {taken}, which is that of environment dev" in result.stderr
    assert "fix: use e.g. 127." in result.stderr


def test_a_network_in_use_is_refused(copied: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.201.0.1", 4646))
        other.listen()
        network = ["--target", "dev", "--network", "127.201.0.0/24"]
        result = init("-s", "second", *network, "--model", "smollm2", "--yes")
    assert result.exit_code == 2
    assert "127.201.0.1:4646 is in use by another program" in result.stderr
    assert not (copied / "Pulumi.second.yaml").exists()


@pytest.mark.parametrize("name", ["state", "../up"])
def test_a_name_that_cannot_be_one_is_refused(copied: Path, name: str) -> None:
    before = files(copied)
    result = init("-s", name, *DEV, "--model", "smollm2", "--yes")
    assert result.exit_code == 2
    assert "fix: " in result.stderr
    assert files(copied) == before


def test_the_policies_have_the_last_word(copied: Path) -> None:
    """One server is no production."""
    alone = [each for each in METAL if not each.startswith(("server-1=", "server-2="))]
    options = [
        each
        for place, each in enumerate(alone)
        if each != "--server" or alone[place + 1] == "server-0=10.90.0.1"
    ]
    result = init("-s", "prod-new", *options, "--model", "q=qwen3-8b", "--yes")
    assert result.exit_code == 1
    assert "the policies refuse it: platform has 1 server (single-server)" in result.stderr
    assert not (copied / "Pulumi.prod-new.yaml").exists()


@pytest.mark.thorough
def test_on_a_terminal_answers_alone_make_an_environment_with_two_models(
    whole_checkout: Path,
) -> None:
    answers = ["dev", "second", "127.200.0.0/24", "none", "2", "smollm2 tutor=smollm2", "y"]
    controller, terminal = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "cli", "init"],
        cwd=whole_checkout,
        env={
            **os.environ,
            "PYTHONPATH": f"{whole_checkout / 'src'}{os.pathsep}{whole_checkout}",
            "SLIPWAY_CACHE": str(whole_checkout.parent / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(terminal)
    os.write(controller, "".join(f"{each}\n" for each in answers).encode())
    output, _ = running.communicate(timeout=120)
    os.close(controller)
    assert running.returncode == 0, output
    assert '"none" is no number of at least 1' in output  # and it was asked again
    inputs = load_inputs(whole_checkout, "second")
    assert set(inputs.models) == {"smollm2", "tutor"}
    assert inputs.environment.settings.network.cidr == "127.200.0.0/24"
