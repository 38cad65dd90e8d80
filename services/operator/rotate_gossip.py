"""Replaces a running cluster's gossip key. `python rotate_gossip.py apply`."""

import sys

from gossip.rotate import main

if __name__ == "__main__":
    sys.exit(main())
