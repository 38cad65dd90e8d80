"""How vLLM starts its processes here: as forks of a fork server, or of each other."""

import multiprocessing
import os
import traceback
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess

from setproctitle import setproctitle
from vllm.utils import system_utils

TITLE = "slipway: fork server"  # engine and workers take vLLM's titles


class ForkedProcess(ForkServerProcess):
    """A process with its parent's environment variables, as a new interpreter would have."""

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        # The original ones stay where they are: a process writes its title over them.
        for name in os.environ.keys() - self._environment.keys():
            del os.environ[name]
        os.environ.update(self._environment.items() - os.environ.items())
        super().run()


class ForkingContext(ForkServerContext):
    Process = ForkedProcess


def start_by(context: BaseContext) -> None:
    """Make vLLM start its processes from `context`. Call it before vLLM's other modules import
    get_mp_context."""
    global _context  # noqa: PLW0603  (of this process; another one in the fork server)
    _context = context
    system_utils.get_mp_context = _chosen


def _chosen() -> BaseContext:
    return _context


def start_fork_server() -> None:
    """Like `forkserver.ensure_running`, but the server is a fork of this process, with everything
    that it has imported, instead of a new interpreter. No Python thread may run yet."""
    kept = _descriptors()
    resource_tracker.ensure_running()  # is started by the same function

    def fork(_path: object, _arguments: object, passed: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            _serve_forks(*passed, opened=_descriptors() - kept - {*passed})
        return pid

    start_interpreter, util.spawnv_passfds = util.spawnv_passfds, fork
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = start_interpreter


def _serve_forks(listener: int, alive: int, *, opened: set[int]) -> None:
    """Serves until all processes that hold the other end of `alive` have ended. This process must
    not hold it, and closes what was `opened` for others. Does not return."""
    try:
        for descriptor in opened:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(descriptor)
        setproctitle(TITLE)
        start_by(FROM_THIS_PROCESS)  # the workers, from the engine core
        forkserver._forkserver.__init__()  # CPython 3.11: the forking call holds its lock
        forkserver.main(listener, alive, [])
    except SystemExit:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208


FROM_THE_FORK_SERVER = ForkingContext()
FROM_THIS_PROCESS = multiprocessing.get_context("fork")
