"""The vendors of the tools, played for one cold `up` (bench/cold.py --vendors).

    python -m bench.vendors CACHE KEY

Packs the tools that were built into CACHE, signs them by a key made for this run, whose public
part is written to the file KEY, and prints the variables (JSON) with which a process meets these
vendors. Ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import tempfile
from pathlib import Path

from tests.vendors import SigningKey, playing_vendors
from toolchain.pins import tool_pins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("key", type=Path)
    options = parser.parse_args()
    key = SigningKey("vendor")
    options.key.write_text(key.public)
    trusted = Path(ssl.get_default_verify_paths().cafile or "/dev/null").read_text()
    with (
        tempfile.TemporaryDirectory() as folder,
        playing_vendors(Path(folder), "127.0.0.1", trusted) as vendors,
    ):
        for pin in tool_pins().values():
            if pin.archive is not None:
                here = options.cache / "tools" / "bin" / f"{pin.name}-{pin.version}"
                vendors.release(pin, {name: here / name for name in pin.binaries}, key)
        print(json.dumps(vendors.variables), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
