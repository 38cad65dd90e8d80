"""Has vLLM's API server tell the launcher of its engine's steps, in memory that both share.

Its output processor knows every request that was handed to the engine, and sees what the engine
core sends at the end of each step, also of one without a token (Scheduler.make_stats in
vllm/v1/core/sched/scheduler.py). So nothing moves here if the engine core stands still, and nothing
if the API server does.
"""

import os
from collections.abc import Iterable

from program.liveness.progress import VARIABLE, Progress
from vllm.v1.engine import async_llm


def tell_progress() -> None:
    """Call it before the engine's client is made. Without the launcher's memory nothing is told."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    progress = Progress.open(path)

    class TellingOutputProcessor(async_llm.OutputProcessor):
        def add_request(self, *args: object, **named: object) -> None:
            super().add_request(*args, **named)
            progress.outstanding_are(len(self.request_states))

        def abort_requests(self, request_ids: Iterable[str], internal: bool) -> list[str]:
            aborted: list[str] = super().abort_requests(request_ids, internal)
            progress.outstanding_are(len(self.request_states))
            return aborted

        def update_scheduler_stats(self, scheduler_stats: object) -> None:
            super().update_scheduler_stats(scheduler_stats)
            progress.step_ended()
            progress.outstanding_are(len(self.request_states))

    async_llm.OutputProcessor = TellingOutputProcessor
