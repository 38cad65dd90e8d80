"""Outlives a killed launcher and cleans up after it. Started by the launcher only."""

import sys

from replica.guard import main

if __name__ == "__main__":
    sys.exit(main())
