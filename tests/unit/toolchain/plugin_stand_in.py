"""A plugin for tests: prints what it was given, as JSON, and ends with its standard input.

With the argument "deaf" it says that it was told to end, and never does; with "exit" it calls
`sys.exit` with the second argument.
"""

import json
import os
import signal
import sys


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
    if arguments[:1] == ["exit"]:
        sys.exit({"none": None, "9": 9}.get(arguments[1], arguments[1]))
    while arguments == ["deaf"]:
        sys.stdout.write("told\n")
        sys.stdout.flush()
        signal.pause()
    sys.stderr.write("ended\n")
    sys.stderr.flush()
    os._exit(7)
