"""Imports, once, everything that vLLM's engine core and executors import on a CPU."""

import gc

from engine_fork import FROM_THE_FORK_SERVER, start_by

start_by(FROM_THE_FORK_SERVER)

from vllm.platforms import current_platform  # noqa: E402

# Functions of the sampler that vLLM compiles even in eager mode stay Python's: the first request
# with logprobs stopped a group for 17 s (measured), and every node needed a C++ compiler. Groups
# need torch.compile for their warm-up; for others replica/engine.py turns it off as a whole.
current_platform.simple_compile_backend = "eager"

import vllm.v1.engine.core  # noqa: E402
import vllm.v1.executor.multiproc_executor  # noqa: E402
import vllm.v1.executor.uniproc_executor  # noqa: E402
import vllm.v1.worker.cpu_model_runner  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401

gc.freeze()  # a collection would write to the shared pages, and so copy them
