"""Judges the outputs of a fabric's tools, or says which hosts measure with each other.

    SLIPWAY_DOCUMENT=… python fabric_check.py judge|pairs

`judge` prints a report; a failure or a gap is a result, and no error. `pairs` prints rounds of
pairs of the document's hosts that are not busy.
"""

import json
import sys

from fabric.document import VERSION, read_check, report
from fabric.pairs import rounds
from fabric.verdicts import judge
from program.document import read_document
from program.errors import InputError, exit_code


def main() -> None:
    if sys.argv[1:] not in (["judge"], ["pairs"]):
        raise InputError("usage: fabric_check.py judge|pairs")
    check = read_check(read_document(VERSION))
    result: object
    if sys.argv[1] == "judge":
        findings = judge(check.planned, check.thresholds, check.hosts, check.pairs)
        result = report(findings)
    else:
        result = rounds(check.hosts, check.busy)
    sys.stdout.write(json.dumps(result, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(exit_code(main))
