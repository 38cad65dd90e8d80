"""Hosts whose fabric did not pass its check."""

from __future__ import annotations

from cli.clusters.nomad import Nomad
from components.fabric.document import job_id
from components.fabric.metadata import NOT_PASSED


def not_passed(nomad: Nomad) -> dict[str, dict[str, str]]:
    """Host -> the metadata of its node. A pool whose groups have gone keeps the last verdicts,
    which nobody needs any more. Raises httpx.HTTPError."""
    found = nomad.nodes_where(NOT_PASSED)
    if not found:
        return {}
    jobs = {job["ID"] for job in nomad.jobs()}
    return {name: node["Meta"] for name, node in found.items() if job_id(node["NodePool"]) in jobs}
