"""vLLM's OpenAI server on a CPU, for vLLM's environment: takes the server's own arguments.

On a CPU vLLM starts its engine core as a new interpreter, which starts its workers as new
interpreters, and each imports vLLM again: most of a small model's load time. Here they are forks of
a fork server, which is itself a fork of the API server after its imports. vLLM's own entry.py knows
a fork server (VLLM_WORKER_MULTIPROC_METHOD=forkserver), but its settings refuse it.
"""


def main() -> None:
    import engine_imports  # noqa: F401, PLC0415
    from engine_fork import start_fork_server  # noqa: PLC0415

    start_fork_server()
    from engine_progress import tell_progress  # noqa: PLC0415
    from vllm.entrypoints.launchers.api_server.entry import main as serve  # noqa: PLC0415

    tell_progress()
    serve()


if __name__ == "__main__":
    main()
