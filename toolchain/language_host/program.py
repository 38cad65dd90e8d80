"""What the language host starts for a program: a client whose fork of the program's server, which
has imported what the program imports first, runs it (executor.py). Without that server, which
`slipway up` and `preview` start while they plan, it is the program's process itself.
"""

import os
import sys

EXECUTOR = "toolchain.language_host.executor"
SERVER = "program"

if __name__ == "__main__":
    # Not pathlib: see forks/client.py.
    sys.path[0] = os.path.realpath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH118

    from toolchain.forks.client import ALL_STREAMS, run, server_of_command

    run(server_of_command(SERVER), EXECUTOR, sys.argv[1:], streams=ALL_STREAMS)
