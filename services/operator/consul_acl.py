"""Applies a document to Consul's ACLs. `python consul_acl.py apply`."""

import sys

from permissions.consul import main

if __name__ == "__main__":
    sys.exit(main())
