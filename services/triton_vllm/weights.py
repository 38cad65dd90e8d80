"""Prepares a model's weights on a host. `python weights.py --document weights.json`."""

import sys

from preparation.main import main

if __name__ == "__main__":
    sys.exit(main())
