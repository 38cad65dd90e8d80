"""vLLM's OpenAI server on accelerators, for vLLM's environment: takes the server's arguments."""


def main() -> None:
    from engine_progress import tell_progress  # noqa: PLC0415  (spawned processes import this file)
    from vllm.entrypoints.launchers.api_server.entry import main as serve  # noqa: PLC0415

    tell_progress()
    serve()


if __name__ == "__main__":
    main()
