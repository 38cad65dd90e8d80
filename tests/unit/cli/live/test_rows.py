from __future__ import annotations

from cli.live.rows import heading, rows
from cli.live.work import Phase, Piece, Wait, Work

PHASE = Phase(name="pulumi", about="resources", command_s=0, since_s=60, key="up dev: pulumi")
KNOWN = {"up dev: pulumi": 50.0, "nomad building": 100.0, "consul building": 80.0}


def figures(work: Work, now_s: float) -> tuple[str, ...]:
    head = heading(work, now_s, KNOWN.get)
    assert head is not None
    return head.figures


def piece(name: str, state: str, **values: str) -> Piece:
    return Piece(name=name, state=state, since_s=60, **values)


def test_a_phase_is_expected_to_take_what_it_took_the_last_time() -> None:
    assert figures(Work(phase=PHASE, changes=3), 72) == ("3 changed", "0:12 of ~0:50")


def test_builds_that_are_queued_come_after_the_one_that_runs() -> None:
    tools = (piece("nomad", "building"), piece("consul", "queued"), piece("xds", "installing"))
    work = Work(phase=PHASE, tools=tools, tools_ready=2)
    assert figures(work, 70) == ("0:10", "2 of 5 ready", "~2:50 left")
    assert [row.name for row in rows(work, 70, KNOWN.get)] == ["nomad", "xds", "consul"]


def test_what_takes_longer_than_expected_is_not_complete_and_promises_nothing() -> None:
    work = Work(phase=PHASE, tools=(piece("nomad", "building"),))
    (row,) = rows(work, 300, KNOWN.get)
    assert (row.figures, row.share) == ("4:00 of ~1:40", 0.97)
    assert figures(work, 300) == ("4:00", "0 of 1 ready")


def test_a_download_shows_bytes_and_anything_else_its_time() -> None:
    tools = (
        piece("pulumi", "downloading", detail="12 of 48 MB"),
        piece("nomad", "downloading", detail="modules"),
    )
    found = rows(Work(tools=tools), 65, KNOWN.get)
    assert [(row.share, row.figures) for row in found] == [(0.25, "12 of 48 MB"), (None, "0:05")]


def test_nothing_that_is_shown_moves_the_cursor() -> None:
    said = "\x1b[2Jclear\r\nnext"
    work = Work(
        operations=(piece("gate", "creating", detail=said),),
        waits=(Wait(what=lambda: said, since_s=0),),
    )
    found = rows(work, 65, KNOWN.get)
    assert [row.detail or row.name for row in found] == [" [2Jclear  next"] * 2
