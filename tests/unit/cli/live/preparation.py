"""A preparation of sixteen minutes as the toolchain reports it, of tools and environments."""

from __future__ import annotations

from collections.abc import Callable

from cli import progress
from cli.console import say
from cli.progress import Phases, ToolchainProgress
from tests.unit.cli.live.terminal import Clock
from toolchain.progress import amount

BUILT_S = {"nomad": 265, "consul": 255, "pulumi": 216, "prometheus": 142, "nomad-autoscaler": 100}
INSTALLED_S = {"vllm": 130, "triton": 40, "xds": 8, "node": 3}
TOOLS = (*BUILT_S, *INSTALLED_S)
SECONDS = sum(BUILT_S.values())
WARNING = "a warning that is told of while everything goes on"


def prepare(clock: Clock, look: Callable[[], None] = lambda: None, *, every_s: int = 1) -> None:
    """In phases of the real kind. The board and the test look `every_s`; the clock stands still
    between its seconds."""
    phases, report = Phases("up test"), ToolchainProgress()
    with phases.phase("plan", "Pulumi.test.yaml and its models"):
        pass
    with phases.phase("tools", "binaries and Python environments, in parallel"):
        for second in range(SECONDS):
            for name in INSTALLED_S:
                _install(report, name, second)
            _build(report, second)
            if second == 100:
                say(WARNING)
            if second % every_s == 0:
                progress.board.look()
                look()
            clock.now_s += 1
        report("nomad-autoscaler", "ready", SECONDS, "")
    with phases.phase("weights", "of the models, on this machine"):
        for second in range(10):
            report("weights of smollm2", "downloading", second, amount(second * 10**7, 10**8))
            progress.board.look()
            look()
            clock.now_s += 1


def _install(report: ToolchainProgress, name: str, second: int) -> None:
    if second <= INSTALLED_S[name]:
        state = "ready" if second == INSTALLED_S[name] else "installing"
        report(name, state, second, "" if state == "ready" else "from requirements.txt")


def _build(report: ToolchainProgress, second: int) -> None:
    begins = 0
    for name, takes_s in BUILT_S.items():
        if second < begins:
            report(name, "queued", second, "behind another build")
        elif second < begins + takes_s:
            report(name, "building", second, "a package")
        elif second == begins + takes_s:
            report(name, "ready", second, "")
        begins += takes_s
