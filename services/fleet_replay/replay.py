"""Replay a trace against simulated fleets: `python replay.py < document.json > result.json`."""

import sys
from pathlib import Path

# For the simulated engine.
sys.path.append(str(Path(__file__).resolve().parents[1] / "engine_sim"))

from fleet.main import main

if __name__ == "__main__":
    sys.exit(main())
