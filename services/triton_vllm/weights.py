"""Prepares a model's weights on a host. `python weights.py --document weights.json`."""

import os
import sys
import traceback

from preparation.main import main

if __name__ == "__main__":
    try:
        code = main()
    except SystemExit as ending:  # of a signal, or of --help
        code = int(ending.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads may still wait for a source that is silent; what came is on the disk
