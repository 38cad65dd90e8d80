"""One replica: Triton and vLLM under one process. `python launcher.py --document replica.json`."""

import sys

from replica.main import main

if __name__ == "__main__":
    sys.exit(main())
