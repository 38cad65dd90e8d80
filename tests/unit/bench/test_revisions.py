from __future__ import annotations

from bench.revisions import missing


def test_a_revision_that_a_clone_lacks_is_named_with_the_fix() -> None:
    assert missing("HEAD") == ""
    assert "0123456789 is not in this clone's history (git fetch --unshallow)" in missing(
        "0123456789"
    )
