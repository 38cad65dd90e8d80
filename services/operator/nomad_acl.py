"""Bootstraps Nomad's ACLs with a given token. `python nomad_acl.py apply`."""

import sys

from permissions.nomad import main

if __name__ == "__main__":
    sys.exit(main())
