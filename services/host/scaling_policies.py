"""Checks that the autoscaler handles every policy; the health check of its job."""

import sys

from checks.scaling_policies import main

if __name__ == "__main__":
    sys.exit(main())
