"""Puts what elastic nodes run into the environment's bucket, once. `python publish.py apply`."""

import sys

from publication.main import main

if __name__ == "__main__":
    sys.exit(main())
