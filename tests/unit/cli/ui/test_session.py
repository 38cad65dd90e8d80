from __future__ import annotations

from cli.ui.origins import origins
from cli.ui.session import Sessions


def test_tokens_that_are_too_old_are_not_kept() -> None:
    front, *_ = origins(8080).values()
    now_s = 0.0
    sessions = Sessions(now_s=lambda: now_s)
    for _ in range(1_000):
        sessions.token_for(front, 60.0)
        now_s += 30
    assert len(sessions._tokens) <= 2


def test_a_token_is_good_until_it_is_too_old() -> None:
    front, *_ = origins(8080).values()
    now_s = 0.0
    sessions = Sessions(now_s=lambda: now_s)
    early, late = sessions.token_for(front, 60.0), sessions.token_for(front, 60.0)
    now_s = 59.0
    assert sessions.exchange(early, front) is not None
    now_s = 60.0
    assert sessions.exchange(late, front) is None
