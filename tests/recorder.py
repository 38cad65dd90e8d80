"""Runs pytest as `python -m pytest` does, and writes down which tests passed and which failed.

Needs nothing but pytest: it runs in the environment of each suite.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

RECORD_VARIABLE = "SLIPWAY_TEST_RECORD"  # the file's path; without it nothing is written


class Recorder:
    """Writes the tests, with absolute paths, when all have run.

    Nothing is written when more went wrong than a test: a file that cannot be imported, a worker
    that died.
    """

    def __init__(self, record: Path) -> None:
        self.record = record
        self.passed = dict[str, None]()  # an ordered set
        self.failed = dict[str, None]()
        self.more_went_wrong = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.more_went_wrong |= report.failed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        """A worker of pytest-xdist has ended."""
        self.more_went_wrong |= bool(error)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # its fixtures count too
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed[report.nodeid] = None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.more_went_wrong:
            return
        root = session.config.rootpath
        tests = {
            "passed": [f"{root / test}" for test in self.passed if test not in self.failed],
            "failed": [f"{root / test}" for test in self.failed],
        }
        self.record.write_text(json.dumps(tests))


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    path = os.environ.pop(RECORD_VARIABLE, "")
    sys.exit(pytest.main(plugins=[Recorder(Path(path))] if path else []))
