"""Clear what killed replicas left on this host: processes, shared memory, folders.

A replica that starts does the same first; this is for a platform that goes. Environment:
SLIPWAY_SCRATCH.
"""

import os
from pathlib import Path

from replica.home import clear_dead_homes
from replica.journal import Journal

if __name__ == "__main__":
    clear_dead_homes(Path(os.environ["SLIPWAY_SCRATCH"]), Journal())
