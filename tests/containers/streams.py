"""Streams that last as long as a test wants: at the prompt `hold` the fake engine pauses after the
first token until it is released."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx

from tests.containers.bed import Replica
from tests.waiting import HANG_S

TOKENS = 20


@dataclass
class Stream:
    replica: Replica
    lines: Iterator[str]
    text: str = ""

    def read_token(self) -> bool:
        """False at the end of the answer. Raises httpx.HTTPError if it breaks off."""
        for line in self.lines:
            if line == "data: [DONE]":
                return False
            if line.startswith("data: ") and (choices := json.loads(line[6:])["choices"]):
                self.text += choices[0]["text"]
                return True
        raise httpx.RemoteProtocolError("the stream ended too early")

    def finish(self) -> str:
        """The whole text, once the engine goes on."""
        httpx.post(f"{self.replica.url}/release", timeout=HANG_S).raise_for_status()
        while self.read_token():
            pass
        return self.text


@contextmanager
def streams_of(replicas: Sequence[Replica], model: str) -> Iterator[list[Stream]]:
    """One of each replica, which has begun."""
    with ExitStack() as stack:
        opened = []
        for replica in replicas:
            body = {"model": model, "prompt": "hold", "max_tokens": TOKENS, "stream": True}
            request = httpx.stream(
                "POST", f"{replica.url}/v1/completions", json=body, timeout=HANG_S
            )
            response = stack.enter_context(request)
            response.raise_for_status()
            stream = Stream(replica, response.iter_lines())
            assert stream.read_token()
            opened.append(stream)
        yield opened


WHOLE = " hold" * TOKENS
