"""A plugin for tests: shows what it was given, as JSON, and ends with its standard input, or never
when its argument is "deaf"."""

import json
import os
import sys
import time


def main(arguments: list[str]) -> None:
    shown = {
        "arguments": arguments,
        "folder": os.readlink("/proc/self/cwd"),  # noqa: PTH115
        "greeting": os.environ.get("GREETING"),
        "pid": os.getpid(),
        "server": os.getppid(),
        "open": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208
    }
    print(json.dumps(shown), flush=True)
    while os.read(0, 4096):
        pass
    while arguments == ["deaf"]:
        time.sleep(1)
    sys.stderr.write("ended\n")
    sys.stderr.flush()
    os._exit(7)
