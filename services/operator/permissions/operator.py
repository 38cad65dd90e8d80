"""Put the operator's certificate where gates and the command line read it.

    operator_access.py apply     document in SLIPWAY_DOCUMENT (schemas/operator.schema.json), the
                                 files as JSON on standard input

It changes when its certificate is renewed. Nothing has to be removed at the end: the files are
deleted with the last agent.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

from program.arguments import expect_apply
from program.certificate import FILES
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import exit_code
from program.folders import Folders, make_private_folder, write_private
from program.waiting import say

SCHEMA = "operator.schema.json"
SCHEMA_VERSION = 1


def apply(folders: Folders, secrets: JsonObject) -> None:
    with parsing(SCHEMA):
        files = {name: secrets["certificate"][name] for name in FILES}
    make_private_folder(folders.run)
    for name, content in files.items():
        write_private(folders.operator / name, content)
    say("the operator's certificate is in place")


def run() -> None:
    expect_apply("operator_access.py")
    read_document(SCHEMA_VERSION)  # only its version matters
    apply(Folders.from_environment(), read_secrets())


def main() -> int:
    return exit_code(run)
