"""Introduces new nodes of elastic pools. `python introduce.py FILE`, as a job of Nomad."""

import sys

from introducer.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
