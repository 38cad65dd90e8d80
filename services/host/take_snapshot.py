"""Takes a snapshot of the clusters. `python take_snapshot.py --folder FOLDER --keep N`."""

import sys

from snapshots.take import main

if __name__ == "__main__":
    sys.exit(main())
