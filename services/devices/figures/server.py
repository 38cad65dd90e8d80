"""Serves the figures to Prometheus, as long as the plugin lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from program.figures_page import FiguresServer

RETRY_S = 5.0


def serve(
    address: tuple[str, int],
    certificate: Path,
    reader: str,
    figures: Callable[[], bytes],
    *,
    warn: Callable[[str], None],
) -> None:
    """Serves for ever. Devices are announced also where this fails, so it tries again: the plugin
    of an agent that ends may still have the port."""
    while True:
        try:
            server = FiguresServer(address, certificate, [reader], figures)
        except OSError as error:
            warn(f"the figures of the devices cannot be served yet: {error}")
            time.sleep(RETRY_S)
        else:
            server.serve_forever()
