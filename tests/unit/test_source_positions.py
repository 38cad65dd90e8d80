"""The SDK sends where in the program each resource is made."""

from __future__ import annotations

from traceback import FrameSummary

import pytest
from pulumi.runtime import resource
from pulumi.runtime.proto import source_pb2

from stacks import source_positions
from stacks.recording import record


def test_positions_are_those_of_the_sdk_and_worked_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[FrameSummary]()
    of_frame = source_positions._of_frame

    def counted(frame: FrameSummary) -> source_pb2.SourcePosition | None:
        asked.append(frame)
        return of_frame(frame)

    monkeypatch.setattr(source_positions, "_of_frame", counted)
    monkeypatch.setattr(resource, "_get_source_position_for_frame", of_frame)
    source_positions._position.cache_clear()
    source_positions.remember_source_positions()
    for line in (3, 4, 3, 4):
        frame = FrameSummary("/program/__main__.py", line, "main")
        found = resource._get_source_position_for_frame(frame)
        assert found == source_pb2.SourcePosition(uri="file:///program/__main__.py", line=line)
    assert resource._get_source_position_for_frame(FrameSummary("<string>", 1, "")) is None
    assert [(frame.filename, frame.lineno) for frame in asked] == [
        ("/program/__main__.py", 3),
        ("/program/__main__.py", 4),
        ("<string>", 1),
    ]


def test_a_recorded_program_has_its_positions_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_sdk = source_positions._of_frame
    monkeypatch.setattr(resource, "_get_source_position_for_frame", of_the_sdk)
    record(lambda: None)
    assert resource._get_source_position_for_frame is not of_the_sdk
