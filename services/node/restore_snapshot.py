"""Restores the clusters from snapshots. `python restore_snapshot.py apply`."""

import sys

from snapshots.restore import main

if __name__ == "__main__":
    sys.exit(main())
