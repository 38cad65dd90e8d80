"""The LanguageRuntime service: runs Pulumi programs and policy packs written in Python.

The parts of Pulumi's own host that a Slipway stack needs; it generates no code and no templates.
"""

# ruff: noqa: ARG002, N802 - the signatures are those of the interface

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2 as pb
from pulumi.runtime.proto import language_pb2_grpc, plugin_pb2

from toolchain.language_host.child import Children, output_chunks
from toolchain.language_host.environment import (
    MissingEnvironmentError,
    PythonEnvironment,
    declared_virtualenv,
    find_environment,
)

PROGRAM = Path(__file__).with_name("program.py")
POLICIES = Path(__file__).with_name("policies.py")
# The program has shown its own error (the SDK's contract with its executor).
EXIT_ALREADY_REPORTED = 32


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """One host serves one run of the CLI."""

    def __init__(self, engine_address: str) -> None:
        self._engine_address = engine_address
        self._children = Children()
        self._waiting: dict[PythonEnvironment, subprocess.Popen[bytes]] = {}

    def register(self, server: grpc.Server) -> None:
        """Add this service to `server`."""
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(self, server)

    def stop(self) -> None:
        """End every program and plugin that this host runs."""
        self._children.stop()

    def Handshake(
        self, request: pb.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> pb.LanguageHandshakeResponse:
        self._engine_address = request.engine_address
        return pb.LanguageHandshakeResponse()

    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        self._children.stop()
        return Empty()

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def GetRequiredPackages(
        self, request: pb.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> pb.GetRequiredPackagesResponse:
        environment = _environment(request.info, context)
        # Pulumi asks this before it loads the other plugins. Meanwhile the executor imports what
        # the program needs (in vain for `destroy`, which asks too).
        if environment not in self._waiting:
            with contextlib.suppress(OSError):  # Run says what is wrong
                self._waiting[environment] = self._start_executor(environment, request.info)
        packages = [
            plugin_pb2.PackageDependency(
                kind="resource",
                name=manifest["name"],
                version="v" + str(manifest.get("version", "")).removeprefix("v"),
                server=manifest.get("server", ""),
            )
            for manifest in environment.plugin_manifests()
        ]
        return pb.GetRequiredPackagesResponse(packages=packages)

    def GetProgramDependencies(
        self, request: pb.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> pb.GetProgramDependenciesResponse:
        installed = _environment(request.info, context).distributions()
        return pb.GetProgramDependenciesResponse(
            dependencies=[pb.DependencyInfo(name=n, version=v) for n, v in installed]
        )

    def About(self, request: pb.AboutRequest, context: grpc.ServicerContext) -> pb.AboutResponse:
        python = _environment(request.info, context).python
        return pb.AboutResponse(executable=str(python), version=_version_of(python))

    def RuntimeOptionsPrompts(
        self, request: pb.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> pb.RuntimeOptionsResponse:
        return pb.RuntimeOptionsResponse()

    def Run(self, request: pb.RunRequest, context: grpc.ServicerContext) -> pb.RunResponse:
        environment = _environment(request.info, context)
        process = self._waiting.pop(environment, None) or self._start_executor(
            environment, request.info
        )
        context.add_callback(lambda: self._children.kill(process))
        _send(process, {"arguments": self._run_arguments(request), "variables": _settings(request)})
        status = self._children.wait(process)
        if status == EXIT_ALREADY_REPORTED:
            return pb.RunResponse(bail=True)
        if status < 0:
            return pb.RunResponse(error=f"the program was ended by signal {-status}")
        return pb.RunResponse(error=f"the program exited with status {status}" if status else "")

    def _start_executor(
        self, environment: PythonEnvironment, info: pb.ProgramInfo
    ) -> subprocess.Popen[bytes]:
        """Starts an executor, which waits once it has the modules of the SDK and the program."""
        program = Path(info.program_directory, info.entry_point)
        return self._children.start(
            [str(environment.python), "-u", "-S", str(PROGRAM), str(program)],
            info.root_directory,
            environment.variables(os.environ),
            stdin=subprocess.PIPE,
        )

    def _run_arguments(self, request: pb.RunRequest) -> list[str]:
        named = {
            "monitor": request.monitor_address,
            "engine": self._engine_address,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "organization": request.organization,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
        }
        options = [f"--{name}={value}" for name, value in named.items() if value]
        return [*options, "--", request.info.entry_point or ".", *request.args]

    def RunPlugin(
        self, request: pb.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.RunPluginResponse]:
        environment = _environment(request.info, context)
        folder = request.info.program_directory
        arguments = (
            ["-S", str(POLICIES), *request.args, folder]
            if request.kind == "analyzer"
            else [folder, *request.args]
        )
        variables = environment.variables(dict(v.split("=", 1) for v in request.env if "=" in v))
        process = self._children.start(
            [str(environment.python), "-u", *arguments],
            request.pwd,
            variables,
            output=subprocess.PIPE,
        )
        context.add_callback(lambda: self._children.kill(process))
        for name, data in output_chunks(process):
            yield (
                pb.RunPluginResponse(stdout=data)
                if name == "stdout"
                else pb.RunPluginResponse(stderr=data)
            )
        yield pb.RunPluginResponse(exitcode=self._children.wait(process))

    def InstallDependencies(
        self, request: pb.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.InstallDependenciesResponse]:
        folder = Path(request.info.program_directory)
        virtualenv = declared_virtualenv(request.info.root_directory, _options(request.info))
        if virtualenv is not None and not (virtualenv / "bin" / "python").exists():
            yield from self._install_step([sys.executable, "-m", "venv", str(virtualenv)], folder)
        if (folder / "requirements.txt").is_file():
            python = str(_environment(request.info, context).python)
            step = [python, "-m", "pip", "install", "-r", "requirements.txt"]
            yield from self._install_step(step, folder)

    def _install_step(
        self, command: list[str], folder: Path
    ) -> Iterator[pb.InstallDependenciesResponse]:
        process = self._children.start(command, folder, os.environ, output=subprocess.PIPE)
        for name, data in output_chunks(process):
            yield (
                pb.InstallDependenciesResponse(stdout=data)
                if name == "stdout"
                else pb.InstallDependenciesResponse(stderr=data)
            )
        if status := self._children.wait(process):
            raise RuntimeError(f"{' '.join(command)} exited with status {status}")


def _version_of(python: Path) -> str:
    if python.samefile(sys.executable):  # as for Slipway's own program
        return platform.python_version()
    shown = subprocess.run(
        [str(python), "--version"], capture_output=True, text=True, check=False, timeout=10
    )
    return shown.stdout.removeprefix("Python ").strip()


def _settings(request: pb.RunRequest) -> dict[str, str]:
    """The variables in which the SDK looks for the stack's configuration."""
    return {
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
    }


def _send(executor: subprocess.Popen[bytes], task: Mapping[str, Any]) -> None:
    assert executor.stdin is not None, "an executor waits for its task"  # noqa: S101
    with contextlib.suppress(BrokenPipeError), executor.stdin as stream:  # its exit status says why
        stream.write(json.dumps(task).encode())


def _options(info: pb.ProgramInfo) -> Mapping[str, Any]:
    return dict(info.options)


def _environment(info: pb.ProgramInfo, context: grpc.ServicerContext) -> PythonEnvironment:
    try:
        return find_environment(info.root_directory, _options(info))
    except MissingEnvironmentError as problem:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        raise
