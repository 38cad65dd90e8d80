"""Makes an instance a node of its pool. `python join.py FILE`, at every boot, after boot.py."""

import sys

from joining.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
