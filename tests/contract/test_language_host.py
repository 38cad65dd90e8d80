"""The registry-only language host under the real CLI: programs and policy packs."""

import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2 as pb
from pulumi.runtime.proto import language_pb2_grpc

from cli.pulumi.plugins import start_server
from tests.contract.stack import Stack
from tests.waiting import HANG_S, until
from toolchain.forks.client import COMMAND, STATUS_BYTES
from toolchain.language_host import policies, program
from toolchain.plugins.install import sdk_version
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

pytestmark = pytest.mark.binaries

Serve = Callable[..., int]  # python, name, *modules; the pid of the server

CHECKOUT = Path(__file__).parents[2]
POLICY_REQUIREMENTS = CHECKOUT / "policies" / "requirements.txt"

PACK = """
import os
from pathlib import Path

from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy


def no_short_passwords(args, report_violation):
    if args.props.get("length", 16) < 16:
        report_violation(f"{args.name} is shorter than 16")


Path(__file__).with_name("parent").write_text(str(os.getppid()))
PolicyPack(
    name="pack",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(
            name="no-short-passwords", description="d", validate=no_short_passwords
        )
    ],
)
"""
FORKED = """
import os
from pathlib import Path
Path(file).write_text(f"{os.getppid()} {pulumi.Config().get('word')}")
1 / zero
"""
PASSWORD = """
import pulumi_random
pulumi_random.RandomPassword("password", length=length)
"""


@pytest.fixture(scope="session")
def policy_environment() -> Path:
    """An environment with pulumi_policy, which cannot live in the root environment (protobuf 5)."""
    job = EnvironmentJob(name="policies", requirements=POLICY_REQUIREMENTS)
    return prepare([job], default_cache())["policies"]


@pytest.fixture
def pack(tmp_path: Path, policy_environment: Path) -> Path:
    """A policy pack with one mandatory rule and an environment of its own."""
    folder = tmp_path / "pack"
    folder.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": str(policy_environment)}}
    (folder / "PulumiPolicy.yaml").write_text(json.dumps({"runtime": runtime}))
    (folder / "__main__.py").write_text(PACK)
    return folder


def test_a_policy_pack_in_its_own_environment_judges_a_preview(stack: Stack, pack: Path) -> None:
    stack.program(PASSWORD, length=8)
    refused = stack.preview(f"--policy-pack={pack}")
    assert not refused.ok
    assert "password is shorter than 16" in refused.output
    stack.program(PASSWORD, length=16)
    accepted = stack.preview(f"--policy-pack={pack}")
    assert accepted.ok, accepted.output


def wait_for_imports() -> None:
    """Until each server has ended the fork of a client that asks for nothing: a client that has
    waited for ten seconds would do the work itself."""
    names = re.findall(
        rf"@(slipway-forks-\S+-{os.getpid()}-\S+)", Path("/proc/net/unix").read_text()
    )
    for name in set(names):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(HANG_S)
            client.connect(f"\0{name}")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(STATUS_BYTES)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, stack: Stack) -> Iterator[Serve]:
    """Starts a server as a command does that runs the stack's Pulumi; returns once it listens."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    stack.variables[COMMAND] = str(os.getpid())
    with ExitStack() as running:

        def serve(python: Path, *modules: str) -> int:
            server = running.enter_context(start_server(python, *modules))
            running.callback(server.kill)
            until(lambda: f"-{os.getpid()}-" in Path("/proc/net/unix").read_text())
            wait_for_imports()
            return server.pid

        yield serve


def test_a_program_is_a_fork_of_the_server_that_the_command_has_started(
    stack: Stack, served: Serve, tmp_path: Path
) -> None:
    server = served(Path(sys.executable), "pulumi", program.EXECUTOR)
    shown = tmp_path / "shown"
    stack.program(FORKED, file=str(shown), zero=1)
    stack.run("config", "set", "--stack=s", "word", "said").check_returncode()
    assert stack.preview().ok
    assert shown.read_text() == f"{server} said"
    stack.program(FORKED, file=str(shown), zero=0)
    failed = stack.preview()
    assert not failed.ok
    assert "ZeroDivisionError" in failed.output
    assert "toolchain" not in failed.output


def test_a_policy_pack_is_a_fork_of_the_server_that_the_command_has_started(
    stack: Stack, served: Serve, pack: Path, policy_environment: Path
) -> None:
    python = policy_environment / "bin" / "python"
    server = served(python, *policies.SHARED_MODULES)
    stack.program(PASSWORD, length=8)
    refused = stack.preview(f"--policy-pack={pack}")
    assert (pack / "parent").read_text() == str(server)
    assert "password is shorter than 16" in refused.output
    (pack / "__main__.py").write_text("import sys; sys.exit('no such waiver')")
    assert "no such waiver" in stack.preview(f"--policy-pack={pack}").output


def test_a_program_sees_its_configuration_arguments_and_folder(stack: Stack) -> None:
    stack.variables["PYTHONPATH"] = ""
    stack.program(
        """
        import os, sys
        from pathlib import Path
        config = pulumi.Config()
        pulumi.export("plain", config.require_int("number"))
        pulumi.export("secret", config.require_secret("word"))
        place = [pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack()]
        pulumi.export("stack", place)
        pulumi.export("here", Path.cwd() == Path(sys.argv[0]).resolve())
        pulumi.export("prefix", sys.prefix)
        pulumi.export("hidden", [path for path in sys.path if path.startswith(checkout)])
        pulumi.export("virtualenv", os.environ["VIRTUAL_ENV"])
        """,
        checkout=str(CHECKOUT),
    )
    stack.run("config", "set", "--stack=s", "number", "7")
    stack.run("config", "set", "--stack=s", "--secret", "word", "canary-word")
    done = stack.up()
    assert done.ok, done.output
    outputs = stack.stack_outputs()
    assert outputs.pop("secret")["ciphertext"]
    assert outputs == {
        "plain": 7,
        "stack": ["organization", "t", "s"],
        "here": True,
        "prefix": sys.prefix,
        "hidden": [],
        "virtualenv": sys.prefix,
    }
    assert stack.files_with("canary-word") == []


def test_a_resource_hook_runs_in_the_program_and_its_failure_fails_the_update(
    stack: Stack, tmp_path: Path
) -> None:
    stack.program(
        """
        import pulumi_random
        from pathlib import Path

        def note(args):
            Path(journal).write_text(args.name)
            raise RuntimeError("the cluster has no leader")

        pulumi_random.RandomPassword(
            "gate",
            length=8,
            opts=pulumi.ResourceOptions(
                hooks=pulumi.ResourceHookBinding(after_create=[pulumi.ResourceHook("note", note)])
            ),
        )
        """,
        journal=str(tmp_path / "journal"),
    )
    failed = stack.up()
    assert (tmp_path / "journal").read_text() == "gate"
    assert not failed.ok
    assert "the cluster has no leader" in failed.output


@pytest.mark.parametrize(
    ("source", "shown", "hidden"),
    [
        ('raise pulumi.RunError("models/x.yaml: no such pool")', "no such pool", "Traceback"),
        ("{}['missing']", "KeyError: 'missing'", "executor.py"),
        ("import no_such_module", "No module named 'no_such_module'", "executor.py"),
    ],
)
def test_a_failing_program_shows_its_own_error_and_nothing_of_the_host(
    stack: Stack, source: str, shown: str, hidden: str
) -> None:
    stack.program(source)
    failed = stack.preview()
    assert not failed.ok
    assert shown in failed.text
    assert hidden not in failed.output


def test_a_missing_virtual_environment_is_named_in_the_error(stack: Stack) -> None:
    stack.settings(virtualenv="../nowhere")
    stack.program("")
    failed = stack.preview()
    assert not failed.ok
    assert str(stack.folder / "nowhere") in failed.output


@pytest.mark.parametrize("how", ["interrupt", "end of input"])
def test_the_host_prints_one_port_and_ends_when_it_is_told_to(pulumi: Path, how: str) -> None:
    host = subprocess.Popen(
        [pulumi.with_name("pulumi-language-python"), "127.0.0.1:1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    assert 0 < int(host.stdout.readline()) < 65536
    if how == "interrupt":
        host.send_signal(signal.SIGINT)
    else:
        host.stdin.close()
    assert host.wait(HANG_S) == 0
    assert host.stdout.read() == b""


@pytest.fixture
def host(pulumi: Path) -> Iterator[language_pb2_grpc.LanguageRuntimeStub]:
    """The service of a running host."""
    process = subprocess.Popen(
        [pulumi.with_name("pulumi-language-python"), "127.0.0.1:1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_S) == 0


def _info(folder: Path, virtualenv: str) -> pb.ProgramInfo:
    info = pb.ProgramInfo(
        root_directory=str(folder), program_directory=str(folder), entry_point="."
    )
    info.options.update({"virtualenv": virtualenv})
    return info


def test_the_host_tells_what_an_environment_holds(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    info = _info(tmp_path, sys.prefix)
    required = host.GetRequiredPackages(pb.GetRequiredPackagesRequest(info=info)).packages
    versions = {package.name: package.version for package in required}
    assert {"command", "consul", "nomad", "random"} <= set(versions)
    assert versions["random"] == "v" + sdk_version(Path(sys.executable), "random")
    assert host.About(pb.AboutRequest(info=info)).version == platform.python_version()
    installed = host.GetProgramDependencies(pb.GetProgramDependenciesRequest(info=info))
    pulumi_version = metadata.version("pulumi")
    assert ("pulumi", pulumi_version) in [(d.name, d.version) for d in installed.dependencies]
    assert host.GetPluginInfo(Empty()).version == pulumi_version


def test_another_python_is_asked_for_its_version(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    other = tmp_path / "venv" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\necho Python 3.9.1\n")
    other.chmod(0o755)
    about = host.About(pb.AboutRequest(info=_info(tmp_path, "venv")))
    assert (about.executable, about.version) == (str(other), "3.9.1")


def test_the_program_s_first_imports_are_made_before_it_is_run(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    (tmp_path / "__main__.py").write_text(
        '"""A program."""\nfrom os import sep\nimport first\nprint(sep)\nimport later\n'
    )
    for name in ("first", "later"):
        source = "from pathlib import Path; Path(__file__).with_suffix('.imported').touch()"
        (tmp_path / f"{name}.py").write_text(source)
    host.GetRequiredPackages(pb.GetRequiredPackagesRequest(info=_info(tmp_path, sys.prefix)))
    until((tmp_path / "first.imported").exists)
    assert not (tmp_path / "later.imported").exists()


def test_the_host_runs_a_plugin_folder_and_passes_its_outputs_and_status_on(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    source = "import os, sys; print(sys.argv[1], os.environ['A'], flush=True); sys.exit('bad')"
    (tmp_path / "__main__.py").write_text(source)
    request = pb.RunPluginRequest(
        info=_info(tmp_path, sys.prefix),
        pwd=str(tmp_path),
        args=["argument"],
        env=["A=b=c"],
        kind="resource",
    )
    answers = list(host.RunPlugin(request))
    assert b"".join(answer.stdout for answer in answers) == b"argument b=c\n"
    assert b"".join(answer.stderr for answer in answers) == b"bad\n"
    assert answers[-1].WhichOneof("output") == "exitcode"
    assert answers[-1].exitcode == 1


def test_a_plugin_ends_when_the_engine_drops_the_call(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    source = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    (tmp_path / "__main__.py").write_text(source)
    call = host.RunPlugin(
        pb.RunPluginRequest(info=_info(tmp_path, sys.prefix), pwd=str(tmp_path), kind="resource")
    )
    pid = int(next(call).stdout)
    call.cancel()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_installing_dependencies_makes_the_declared_environment(
    host: language_pb2_grpc.LanguageRuntimeStub, tmp_path: Path
) -> None:
    info = _info(tmp_path, "venv")
    list(host.InstallDependencies(pb.InstallDependenciesRequest(info=info)))
    assert (tmp_path / "venv" / "bin" / "python").exists()
