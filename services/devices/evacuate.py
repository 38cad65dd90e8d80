"""Moves what runs on unhealthy devices. `python evacuate.py`, as a job of Nomad."""

import sys

from evacuation.main import main

if __name__ == "__main__":
    sys.exit(main())
