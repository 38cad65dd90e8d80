"""Slipway's Envoy control plane: Consul in, delta ADS out. `python xds.py --help`."""

import sys

# xds-protos has the top-level package `xds`, so installed packages must be found before this file.
sys.path.append(sys.path.pop(0))

from control_plane.main import main

if __name__ == "__main__":
    sys.exit(main())
