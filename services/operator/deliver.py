"""Brings tools, environments and code to a host. `python deliver.py apply|remove|examine`."""

import sys

from delivery.main import main

if __name__ == "__main__":
    sys.exit(main())
