"""Replaces nodes that run from an earlier template. `python refresh_nodes.py apply`."""

import sys

from refresh.main import main

if __name__ == "__main__":
    sys.exit(main())
