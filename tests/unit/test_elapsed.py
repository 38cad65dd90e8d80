"""No test's outcome depends on how fast the machine is: tests/elapsed finds those that do."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.elapsed.modules import roots_of
from tests.elapsed.refused import files_of_tests, refused_in

CHECKOUT = Path(__file__).parents[2]


def test_no_test_depends_on_how_fast_the_machine_is() -> None:
    found = [
        f"{file.relative_to(CHECKOUT)}:{finding}"
        for file in files_of_tests(CHECKOUT)
        for finding in refused_in(file)
    ]
    assert not found, "\n".join(["a test asserts what, never how fast:", *found])


def found_in(folder: Path, source: str) -> list[str]:
    folder.joinpath("test_one.py").write_text(textwrap.dedent(source))
    return [finding.what for finding in refused_in(folder / "test_one.py")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `tests` of a project with a program."""
    (tmp_path / "program.py").write_text("SHORT_S = 5\nLONG_S = 90\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helpers.py").write_text(
        "HALF_S = 30\ndef until(look, within_s=90): ...\n"
    )
    monkeypatch.setattr(
        "tests.elapsed.modules.roots_of", lambda file: (file.parent, *file.parents[1:2])
    )
    return tmp_path / "tests"


CLAIMS = {
    "a span in an assertion": """
        import time
        def test():
            began = time.monotonic()
            assert time.monotonic() - began < 5
        """,
    "a lower bound": """
        from time import perf_counter
        def test():
            began = perf_counter()
            took = perf_counter() - began
            assert 1 < took
        """,
    "about so long": """
        import time, pytest
        def test():
            began = time.time()
            assert time.time() - began == pytest.approx(5, rel=0.3)
        """,
    "a helper's answer": """
        import time
        def took_s(call):
            began = time.process_time()
            call()
            return time.process_time() - began
        def test():
            assert took_s(print) / 2 < 5
        """,
    "a helper's argument": """
        import time
        def check(took_s):
            assert took_s <= 5
        def test():
            began = time.monotonic()
            check(took_s=time.monotonic() - began)
        """,
    "an attribute": """
        import time
        class Stream:
            def __init__(self):
                self.began_s = time.monotonic()
                self.seconds = []
            def piece(self):
                self.seconds.append(time.monotonic() - self.began_s)
        def test():
            assert max(Stream().seconds) < 5
        """,
    "a dataclass's field": """
        import time
        from dataclasses import dataclass, field
        @dataclass
        class Answer:
            started_s: float = field(default_factory=time.monotonic)
            took_s: float = 0
        def ask():
            answer = Answer()
            return Answer(took_s=time.monotonic() - answer.started_s)
        def test():
            assert ask().took_s < 5
        """,
    "an event loop's clock": """
        import asyncio
        async def test():
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert loop.time() - began < 5
        """,
    "a coroutine's answer": """
        import asyncio, time
        async def wait():
            began = time.monotonic()
            return time.monotonic() - began
        async def test():
            assert await asyncio.to_thread(wait) < 5
        """,
    "dates": """
        from datetime import datetime
        def test():
            began = datetime.now()
            assert (datetime.now() - began).total_seconds() < 5
        """,
    "a value by its key": """
        import time
        def test():
            seen = {"began": time.monotonic()}
            seen["took"] = time.monotonic() - seen["began"]
            assert seen["took"] < 5
        """,
    "a short deadline": """
        import time
        def test():
            deadline_s = time.monotonic() + 20
            while True:
                assert time.monotonic() < deadline_s
        """,
    "a deadline that is a parameter": """
        import time
        def until(look, within):
            deadline_s = time.monotonic() + within
            while not look():
                assert time.monotonic() < deadline_s
        """,
    "a clock by another name": """
        import time
        def test(now=time.monotonic):
            clock = time.monotonic
            began = clock()
            assert clock() - began < 5
        """,
    "the time of day": """
        import time
        def test():
            assert time.monotonic() < 100
        """,
    "later than a moment by some": """
        import time
        def test():
            died_s = time.monotonic()
            assert time.monotonic() > died_s + 2
        """,
}


@pytest.mark.parametrize("source", CLAIMS.values(), ids=CLAIMS.keys())
def test_elapsed_time_is_not_compared(folder: Path, source: str) -> None:
    (found,) = found_in(folder, source)
    assert "depends on how fast the machine is" in found


ALLOWED = {
    "a deadline that ends a hang": """
        import time
        HANG_S = 60
        def test():
            deadline_s = time.monotonic() + HANG_S
            while time.monotonic() < deadline_s:
                if deadline_s - time.monotonic() <= 0:
                    break
        """,
    "the order of two moments": """
        import time
        def test():
            first, second = time.monotonic(), time.monotonic()
            assert first <= second
        """,
    "what has nothing to do with the clock": """
        import time
        def test():
            began, count = time.monotonic(), 3
            print(time.monotonic() - began)
            assert count < 5
        """,
    "a clock of the test's own": """
        def test(clock):
            began_s = clock.now_s
            assert clock.now_s - began_s == 60
        """,
    "a certificate's days": """
        import datetime
        def test(certificate):
            now = datetime.datetime.now(datetime.UTC)
            assert certificate.ends > now + datetime.timedelta(days=3)
        """,
    "long waits": """
        import asyncio, subprocess, program
        HANG_S = 60
        START_HANG_S = 2 * HANG_S
        async def test(process, event):
            subprocess.run(["true"], timeout=60)
            process.wait(START_HANG_S)
            await asyncio.wait_for(event.wait(), program.LONG_S)
        """,
    "pauses": """
        import time
        def test(over):
            while not over.wait(0.1):
                time.sleep(0.1)
        """,
    "what is given to the program": """
        from program import Check, watch
        GIVEN_S = 5
        def test(replica):
            watch(timeout_s=GIVEN_S)
            replica.stop(timeout_s=GIVEN_S)
            Check(interval_s=5, timeout_s=5)
        """,
    "joined text and an empty queue": """
        def test(queue, texts):
            ", ".join(texts)
            queue.get(timeout=0)
            {}.get("a", 5)
        """,
}


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED.keys())
def test_allowed(folder: Path, source: str) -> None:
    assert found_in(folder, source) == []


SHORT_WAITS = {
    "of a process": "def test(process): process.wait(20)",
    "by keyword": "def test(process): process.communicate(timeout=20)",
    "of a coroutine": "import asyncio\nasync def test(it): await asyncio.wait_for(it, 5)",
    "of a block": "import asyncio\nasync def test():\n async with asyncio.timeout(5): ...",
    "of a thread": "def test(thread): thread.join(0.5)",
    "of a queue": "def test(queue): queue.get(True, 5)",
    "of a socket": "import socket\ndef test(at): socket.create_connection(at, timeout=1)",
    "of a mark": "import pytest\npytestmark = pytest.mark.timeout(30)",
    "of a client": "import httpx\nclient = httpx.Client(timeout=httpx.Timeout(90, read=90))\n"
    "other = httpx.Client(timeout=5)",
    "by a constant": "READY_S = 20\ndef test(process): process.wait(READY_S)",
    "by a calculation": "READY_S = 20\ndef test(process): process.wait(READY_S * 2)",
    "by the program's constant": "from program import SHORT_S\ndef test(it): it.wait(SHORT_S)",
    "by another file's constant": "import helpers\ndef test(it): it.wait(helpers.HALF_S)",
    "by default": "def until(look, timeout_s=10): ...",
    "of a helper here": "def until(look, within_s): ...\ndef test(): until(print, 5)",
    "of a helper elsewhere": "from helpers import until\ndef test(): until(print, 5)",
    "of a helper by keyword": "from helpers import until\ndef test(): until(print, within_s=5)",
    "of many tries": "import time\ndef test():\n for _ in range(100): time.sleep(0.1)",
    "of the program": "import program\ndef test(): program.watch(timeout_s=5)",
    "given to a wait": "GIVEN_S = 5\ndef test(process): process.wait(GIVEN_S)",
    "given to a library": "import httpx\nGIVEN_S = 5\ndef test(): httpx.get('', timeout=GIVEN_S)",
    "given to a helper": "from helpers import until\nGIVEN_S = 5\ndef test(): until(0, GIVEN_S)",
}


@pytest.mark.parametrize("source", SHORT_WAITS.values(), ids=SHORT_WAITS.keys())
def test_a_test_waits_for_a_minute_at_least(folder: Path, source: str) -> None:
    (found,) = found_in(folder, source)
    assert "which a slow machine can outlast" in found


def test_a_constant_for_hangs_is_a_minute_at_least(folder: Path) -> None:
    assert found_in(folder, "START_HANG_S = 20") == ["START_HANG_S is at least 60 s"]


def test_the_files_of_all_suites_are_read() -> None:
    files = {str(file.relative_to(CHECKOUT)) for file in files_of_tests(CHECKOUT)}
    assert {
        "tests/conftest.py",
        "tests/unit/test_elapsed.py",
    } < files
    for suite in (CHECKOUT / "services").glob("*/tests"):
        assert str((suite / "conftest.py").relative_to(CHECKOUT)) in files
    assert CHECKOUT in roots_of(Path(__file__))
