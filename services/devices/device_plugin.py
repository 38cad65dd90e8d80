"""Nomad's device plugin for the accelerators of a host. `python device_plugin.py --help`."""

import sys

from nomad_plugin.main import main

if __name__ == "__main__":
    sys.exit(main())
