"""Checks the fabric of the host that it runs on. `python check_host.py`, as a job of Nomad."""

import sys

from collection.host import main

if __name__ == "__main__":
    sys.exit(main())
