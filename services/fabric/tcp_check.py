"""Measures TCP between two hosts over addresses of theirs.

    python tcp_check.py listen ADDRESS PORT PEER SECONDS
    python tcp_check.py measure SOURCE TARGET PORT

PEER is the only address that is answered. The figures are printed as JSON.
"""

import dataclasses
import json
import sys

from fabric.tcp import Listener, measure
from program.errors import InputError, exit_code

USAGE = "usage: tcp_check.py listen ADDRESS PORT PEER SECONDS | measure SOURCE TARGET PORT"


def main() -> None:
    try:
        match sys.argv[1:]:
            case ["listen", address, port, peer, seconds]:
                listener = Listener(address, int(port), peer)
                sys.stdout.write(f"{listener.port}\n")
                sys.stdout.flush()
                listener.serve(float(seconds))
            case ["measure", source, target, port]:
                figures = dataclasses.asdict(measure(source, (target, int(port))))
                sys.stdout.write(json.dumps(figures, indent=2, sort_keys=True) + "\n")
            case _:
                raise InputError(USAGE)
    except ValueError as error:
        raise InputError(f"{error}\n{USAGE}") from None


if __name__ == "__main__":
    sys.exit(exit_code(main))
