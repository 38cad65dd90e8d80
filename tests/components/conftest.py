from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pulumi.runtime.resource
import pytest
from pulumi.runtime.proto import source_pb2

from cli.pulumi.cloud_sdks import make_sdk
from stacks.targets import load
from tests.unit.config.checkout import ROOT
from toolchain.progress import silent
from toolchain.settings import default_cache

make_sdk("aws", ROOT, default_cache(), silent)
load("aws", ROOT)  # from now on the SDK can be imported


@pytest.fixture(scope="module", autouse=True)
def event_loop_for_pulumi() -> Iterator[None]:
    """The SDK asks for the thread's current loop; an `asyncio.run` of an earlier test unset it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="session", autouse=True)
def no_places_in_the_program() -> Iterator[None]:
    """The engine is told from where each resource was made. No test asks, and reading the stack
    takes a quarter of the time of a recording."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulumi.runtime.resource, "_get_stack_trace", source_pb2.StackTrace)
        yield
