"""Runs the agents of hosts as processes on this machine. `python agents.py --help`."""

import sys

from host.main import main

if __name__ == "__main__":
    sys.exit(main())
