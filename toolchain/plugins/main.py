"""Entry point of every registry-only plugin: MODULE … ENGINE_ADDRESS, where MODULE has a `main`."""

import os
import sys

# Not pathlib: see forks/client.py.
sys.path[0] = os.path.realpath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH118

from toolchain.forks.client import run, server_of_run  # noqa: E402

if __name__ == "__main__":
    run(server_of_run(), sys.argv[1], sys.argv[2:])
