"""Raises the count of jobs that have members beyond it; a task beside the autoscaler."""

import sys

from counts.members_beyond import main

if __name__ == "__main__":
    sys.exit(main())
