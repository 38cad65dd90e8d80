"""Waits until every Envoy shows clients a certificate. `python certificate_shown.py apply`."""

import sys

from gates.certificate import main

if __name__ == "__main__":
    sys.exit(main())
