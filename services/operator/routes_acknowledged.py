"""Waits until every Envoy has acknowledged the routes. `python routes_acknowledged.py apply`."""

import sys

from gates.routes import main

if __name__ == "__main__":
    sys.exit(main())
