"""Brings tools, environments and code to a host over SSH. `python deliver.py apply|remove`."""

import sys

from delivery.main import main

if __name__ == "__main__":
    sys.exit(main())
