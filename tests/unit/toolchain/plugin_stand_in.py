"""A plugin for tests: shows what it was given, as JSON, and ends with its standard input."""

import json
import os
import sys


def main(arguments: list[str]) -> None:
    shown = {
        "arguments": arguments,
        "folder": os.getcwd(),  # noqa: PTH109
        "greeting": os.environ.get("GREETING"),
        "pid": os.getpid(),
        "server": os.getppid(),
        "open": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208
    }
    print(json.dumps(shown), flush=True)
    while os.read(0, 4096):
        pass
    sys.stderr.write("ended\n")
    sys.stderr.flush()
    os._exit(7)
