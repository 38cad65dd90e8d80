"""What the language host starts for a program: a client of the server that `slipway up` and
`preview` start before they plan. That has imported what the program imports first, and its fork
runs the program (executor.py). Without a server this is the program's process itself.
"""

import os
import sys

EXECUTOR = "toolchain.language_host.executor"

if __name__ == "__main__":
    # Not pathlib: see forks/client.py.
    sys.path[0] = os.path.realpath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH118

    from toolchain.forks.client import ALL_STREAMS, run, server_of_command

    run(server_of_command(), EXECUTOR, sys.argv[1:], streams=ALL_STREAMS)
