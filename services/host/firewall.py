"""Keeps the firewall of members on a host; run by systemd."""

import sys

from host.firewall import main

if __name__ == "__main__":
    sys.exit(main())
