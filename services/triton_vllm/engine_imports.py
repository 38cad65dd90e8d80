"""All that vLLM's engine core and CPU workers import, once: the fork server imports this."""

import gc

from engine_fork import FROM_THIS_PROCESS, start_by

start_by(FROM_THIS_PROCESS)  # the workers, from the engine core

import vllm.v1.engine.core  # noqa: E402
import vllm.v1.executor.multiproc_executor  # noqa: E402
import vllm.v1.worker.cpu_model_runner  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401

gc.freeze()  # a collection would write to, and so copy, the pages that all share
