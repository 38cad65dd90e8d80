"""Makes an instance a node of its pool, and ends being one when AWS takes the instance back.

`python node.py FILE`, at every boot, after boot.py; it runs until the node has left.
"""

import sys

from membership.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
