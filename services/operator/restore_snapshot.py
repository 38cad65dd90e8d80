"""Restores the clusters from snapshots. `python restore_snapshot.py apply`."""

import sys

from restore.main import main

if __name__ == "__main__":
    sys.exit(main())
