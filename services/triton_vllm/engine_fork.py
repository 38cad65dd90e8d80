"""How vLLM starts its processes here: by forks, of a fork server or of each other."""

import multiprocessing
import os
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess

from vllm.utils import system_utils


class ForkedProcess(ForkServerProcess):
    """Has its parent's environment variables, as a new interpreter would."""

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        # The others are left where they are: a process writes its title over them.
        for name in os.environ.keys() - self._environment.keys():
            del os.environ[name]
        os.environ.update(self._environment.items() - os.environ.items())
        super().run()


class ForkingContext(ForkServerContext):
    Process = ForkedProcess


def start_by(context: BaseContext) -> None:
    """Must come before vLLM's other modules take the function by its name."""
    system_utils.get_mp_context = lambda: context


FROM_THE_FORK_SERVER = ForkingContext()
FROM_THIS_PROCESS = multiprocessing.get_context("fork")
