"""Waits until a job of the gateway serves as it is now. `python job_serves.py apply`."""

import sys

from gates.gateway_job import main

if __name__ == "__main__":
    sys.exit(main())
