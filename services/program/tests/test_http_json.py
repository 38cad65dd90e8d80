"""Answers of an agent that are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from program.http_json import Api, ApiError


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1, 2", None),
        (b"HTTP/1.1 500 Error\r\nContent-Length: 100\r\n\r\nNo clu", 500),
        (b"nonsense\r\n\r\n", None),
        (b"", None),
    ],
    ids=["cut off", "an error that is cut off", "no HTTP", "nothing"],
)
def test_an_answer_that_breaks_off_is_an_error_of_the_api(
    answering: Callable[[bytes], str], answer: bytes, status: int | None
) -> None:
    with pytest.raises(ApiError) as failed:
        Api(answering(answer)).get("/v1/jobs")
    assert failed.value.status == status
