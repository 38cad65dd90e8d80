"""Run a simulated replica: `python engine_sim.py --document local/replica.json`."""

import sys

from simulator.process import main

if __name__ == "__main__":
    sys.exit(main())
