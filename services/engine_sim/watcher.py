"""Run a simulated replica that is watched: `python watcher.py --document local/replica.json`."""

import sys

from watched.main import main

if __name__ == "__main__":
    sys.exit(main())
