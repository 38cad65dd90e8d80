"""Runs a command on a host over SSH. `python on_host.py run`."""

import sys

from delivery.command import main

if __name__ == "__main__":
    sys.exit(main())
