"""The `slipway` command: a table of subcommands, each imported only when it is used."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from cli.console import say
from cli.errors import explained, text_of
from toolchain.settings import default_cache

# In the order of --help. Each name is a module of commands/ with an `app` of one command. Its
# summary repeats the first line of the docstring (a test compares them).
COMMANDS: Mapping[str, str] = {
    "init": "Write the files of a new environment, from questions or options.",
    "models": "Add a model to an environment, or list what it serves and could serve.",
    "up": "Bring the environment to the state in its files, and wait until every replica serves.",
    "preview": "Show what `up` would change (pulumi preview; takes its arguments).",
    "diff": "Show what a change does, as a comment for its pull request.",
    "plan": "Show what would run where, what it costs and promises, without a cluster.",
    "policies": "Check the environment against policies/, without Pulumi and without a cluster.",
    "fit": "Say whether a model fits, what remains for requests, and what would fit.",
    "replay": "Serve a recorded load with simulated replicas, before and after a change.",
    "status": "Show nodes, jobs, replicas, endpoints and metrics targets.",
    "ui": "Show the platform on a page in the browser, with a chat box.",
    "chat": "Ask a model through the gateway and stream its answer.",
    "connect": "Print the settings with which agents, SDKs and other clients use the gateway.",
    "bench": "Measure TTFT, TPOT and tokens per second of a model under load, beside the plan.",
    "logs": "Show what a replica prints, or an agent of a host.",
    "dashboards": "Write Grafana dashboards of the platform: fleet, models, gateway.",
    "hosts": "Show each host: its state in the clusters, its disk, certificate and units.",
    "reach": "Keep the platform within reach of other programs: nomad, consul, curl, pulumi.",
    "drain": "Move a host's work to other hosts, and give it no more.",
    "check": "Check the fabric of a host, or measure it between two.",
    "return": "Let a drained host take work again, or trust its repaired devices.",
    "forget": "Remove a host that is gone for good from the state and the clusters.",
    "stop": "End all processes of the environment; its state stays.",
    "start": "Bring a stopped environment back, without Pulumi.",
    "admit": "Set up a host again that was reinstalled, or whose credentials have ended.",
    "snapshot": "Take a snapshot of Consul's and Nomad's states now.",
    "snapshots": "Show the snapshots of Consul's and Nomad's states.",
    "restore": "Bring servers back that have lost all data, from a snapshot.",
    "unprotect": "Let the next `down` destroy clusters and pools.",
    "down": "End the environment and remove its state.",
    "tools": "Show each tool with its version, source, proof and path.",
    "doctor": "Check whether this machine is ready, and say what to do.",
    "env": "Print exports for plain pulumi, nomad and consul commands.",
    "test": "Run the project's own tests (takes pytest arguments).",
}


class CommandGroup(TyperGroup):
    """Lists all commands by their summaries, loads the one in use, and explains its errors."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, _loaded(name) if name else command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(0) from None  # the reader of the pipe has closed it
        except (Exception, KeyboardInterrupt) as error:
            failure = explained(error, ctx.invoked_subcommand or "")
            if failure is None:
                raise
            say(f"slipway: {text_of(failure)}", style="red")
            raise typer.Exit(failure.exit_code) from None


def _loaded(name: str) -> Any:
    module = importlib.import_module(f"cli.commands.{name}")
    command = typer.main.get_command(module.app)
    command.name = name
    return command


def _placeholder(name: str) -> Callable[[], None]:
    def replaced_before_it_runs() -> None:
        raise AssertionError(f"{name} was not loaded")

    return replaced_before_it_runs


app = typer.Typer(
    name="slipway",
    add_completion=False,
    cls=CommandGroup,
    help="One `pulumi up` launches a whole LLM serving platform.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables, tokens among them
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(_placeholder(_name))


def main() -> None:
    # matplotlib keeps a list of fonts, which must not be written outside the cache folder.
    os.environ.setdefault("MPLCONFIGDIR", str(default_cache() / "matplotlib"))
    app(prog_name="slipway")
