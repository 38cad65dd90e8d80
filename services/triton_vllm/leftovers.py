"""Clears what killed replicas left on this host: processes, shared memory, folders.

Every replica does so when it starts; this is for a platform that is taken down. Environment:
SLIPWAY_SCRATCH.
"""

import os
from pathlib import Path

from replica.home import clear_dead_homes
from replica.journal import Journal

if __name__ == "__main__":
    clear_dead_homes(Path(os.environ["SLIPWAY_SCRATCH"]), Journal())
