"""Says which hosts take members of groups. `python keep_admissions.py`, as a job of Nomad."""

import sys

from admission.main import main

if __name__ == "__main__":
    sys.exit(main())
