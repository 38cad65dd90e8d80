"""Waits until a pool's nodes accept work. `python nomad_nodes.py apply`."""

import sys

from gates.pool import main

if __name__ == "__main__":
    sys.exit(main())
