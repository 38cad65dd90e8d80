"""The launcher's command line and exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from replica.document import load_document
from replica.engine import check_devices
from replica.errors import InputError, RunError
from replica.journal import Journal
from replica.launcher import Launcher
from replica.programs import of_environments, of_this_image
from replica.settings import read_settings


def main() -> int:
    """0 after a drain, 1 if a part of the replica failed, 2 for wrong input."""
    parser = argparse.ArgumentParser(description="Run one replica: Triton and vLLM.")
    parser.add_argument("--document", type=Path, required=True, help="schemas/replica.schema.json")
    arguments = parser.parse_args()
    journal = Journal()
    try:
        document = load_document(arguments.document)
        settings = read_settings(os.environ)
        check_devices(document, settings)
        container = document.container
        programs = of_this_image(container.vllm) if container else of_environments(os.environ)
        asyncio.run(Launcher(document, settings, programs, journal).run())
    except InputError as error:
        journal.error(str(error))
        return 2
    except RunError as error:
        journal.error(str(error))
        return 1
    return 0
