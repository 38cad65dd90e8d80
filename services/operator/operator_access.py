"""Puts the operator's certificate in place. `python operator_access.py apply`."""

import sys

from permissions.operator import main

if __name__ == "__main__":
    sys.exit(main())
