"""Restarts a node's Nomad agent if a task's log collector died; run by supervisord."""

import sys

from host.log_collectors import main

if __name__ == "__main__":
    sys.exit(main())
