"""Publishes the public keys of workload identities. `python publish_keys.py -config=FILE`."""

import sys

from publication.workload_keys import main

if __name__ == "__main__":
    sys.exit(main())
