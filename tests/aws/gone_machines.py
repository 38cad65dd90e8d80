"""Has the next update make machines of servers again, as if AWS had said that they are gone: the
commands that stand for them cannot ask it. Run in a checkout of the bed.

    python gone_machines.py ENVIRONMENT HOST...
"""

from __future__ import annotations

import sys

from cli.environment import find
from cli.lifecycle.fleet import backend
from cli.lifecycle.fleet.prepared import tools
from cli.progress import Phases
from cli.pulumi.host_repairs import MACHINE, with_applied_again


def main() -> None:
    environment, *hosts = sys.argv[1:]
    with tools(find(environment), Phases()) as pulumi:
        exported = backend.export(pulumi)
        changed = with_applied_again(exported, {MACHINE + host for host in hosts})
        backend.change_state(pulumi, exported, changed)


if __name__ == "__main__":
    main()
