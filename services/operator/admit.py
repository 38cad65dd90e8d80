"""Admits a host to the clusters, and has them forget it. `python admit.py apply|remove`."""

import sys

from admission.main import main

if __name__ == "__main__":
    sys.exit(main())
