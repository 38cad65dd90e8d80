"""Prepares a model's weights on a host. `python weights.py --document weights.json`."""

import os
import sys
import traceback
from pathlib import Path
from sysconfig import get_python_version

from preparation.main import main

# In a container the image's Python runs this, beside the environment with the sources' clients.
CLIENTS = os.environ.get("SLIPWAY_ENV_WEIGHTS", "")

if __name__ == "__main__":
    if CLIENTS:  # before the image's own versions of them
        sys.path.insert(1, str(Path(CLIENTS, f"lib/python{get_python_version()}/site-packages")))
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
