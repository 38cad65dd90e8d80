"""vLLM's OpenAI server on a CPU, for vLLM's environment: takes the server's own arguments.

On a CPU vLLM starts its engine core as a new interpreter, and that its workers, and each imports
vLLM again: half of the time in which a small model loads. Here a fork server imports it once, while
the API server does the same, and they start from there. vLLM's own entry.py knows such a server
(VLLM_WORKER_MULTIPROC_METHOD=forkserver), but its settings refuse it.
"""

import multiprocessing.forkserver
import os
from pathlib import Path


def start_fork_server() -> None:
    """Before vLLM is imported here, so that both import at the same time."""
    multiprocessing.forkserver.set_forkserver_preload(["engine_imports"])
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # it does not look beside this file
    multiprocessing.forkserver.ensure_running()
    del os.environ["PYTHONPATH"]


def main() -> None:
    start_fork_server()
    from engine_fork import FROM_THE_FORK_SERVER, start_by  # noqa: PLC0415  (brings vLLM)

    start_by(FROM_THE_FORK_SERVER)
    from vllm.entrypoints.launchers.api_server.entry import main as serve  # noqa: PLC0415

    serve()


if __name__ == "__main__":
    main()
