"""Waits until every replica of a model answers. `python model_ready.py apply`."""

import sys

from gates.model import main

if __name__ == "__main__":
    sys.exit(main())
