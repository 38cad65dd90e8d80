"""Replay a trace against simulated fleets: `python replay.py < document.json > result.json`."""

import sys

from simulator.fleet.main import main

if __name__ == "__main__":
    sys.exit(main())
