"""The workers of vLLM above rank 0 of a group, on a CPU: forks of a fork server, as below
engine_server.py."""


def main() -> None:
    import engine_imports  # noqa: F401, PLC0415
    from engine_fork import start_fork_server  # noqa: PLC0415

    start_fork_server()
    from device_engine_member import main as run_workers  # noqa: PLC0415

    run_workers()


if __name__ == "__main__":
    main()
