"""What resources say of the plan, where several say the same (schemas/facts.schema.json)."""

from __future__ import annotations

from .platform import JsonObject

FACTS_VERSION = 1


def source_facts(source: JsonObject | None) -> dict[str, object]:
    """Where weights come from and what pins them; empty for an engine that loads none.

    `source` is that of a model's file: the kind of place is one of its keys.
    """
    if source is None:
        return {}
    kind = next(kind for kind in ("package", "hf", "s3", "path") if kind in source)
    return {
        "kind": kind,
        "name": source[kind],
        "revision": source["sha256" if kind == "package" else "revision"],
    }
