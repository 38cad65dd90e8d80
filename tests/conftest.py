"""One platform for tests/live and tests/host: a fixture counts as another one in each conftest."""

from __future__ import annotations

from tests.live.fixtures import checkout, platform, second

__all__ = ["checkout", "platform", "second"]
