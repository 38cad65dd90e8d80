"""Waits until a job of the gateway serves as it is now. `python envoy_serves.py apply`."""

import sys

from gates.envoy import main

if __name__ == "__main__":
    sys.exit(main())
