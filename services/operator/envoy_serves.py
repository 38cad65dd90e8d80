"""Waits until an Envoy serves as its job says now. `python envoy_serves.py apply`."""

import sys

from gates.envoy import main

if __name__ == "__main__":
    sys.exit(main())
