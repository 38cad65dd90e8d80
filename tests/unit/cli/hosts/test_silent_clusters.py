"""A cluster that does not answer is a trouble of its own."""

from __future__ import annotations

from cli.hosts.troubles import silent_clusters


def test_what_no_cluster_can_say_is_not_taken_for_well() -> None:
    (found,) = silent_clusters("hosts", {"consul": "connection refused"})
    assert found.absent
    assert found.line == (
        "Consul does not say which hosts are there: connection refused\n"
        "    fix: slipway status -s hosts asks again"
    )


def test_clusters_that_answer_are_no_trouble() -> None:
    assert silent_clusters("hosts", {}) == []
