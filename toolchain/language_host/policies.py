"""What the language host starts for a policy pack: a client whose fork of the policies' server runs
the pack. Without that server, which `slipway preview` starts while it plans, it is the pack itself.
"""

import os
import runpy
import sys

MODULE = "toolchain.language_host.policies"
# What a pack's process imports before the pack: the SDK of its own environment.
SHARED_MODULES = ("pulumi.runtime", "pulumi_policy", MODULE)


def main(arguments: list[str]) -> None:
    """Run the pack: like `python -m pulumi.policy`, the SDK's program for it."""
    from toolchain.forks.client import leave_checkout  # noqa: PLC0415

    leave_checkout()
    sys.argv[1:] = arguments
    runpy.run_module("pulumi.policy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    # Not pathlib: see forks/client.py.
    sys.path[0] = os.path.realpath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH118

    from toolchain.forks.client import ALL_STREAMS, run, server_of_command

    run(server_of_command(), MODULE, sys.argv[1:], streams=ALL_STREAMS)
