"""The document of a simulated replica."""

from __future__ import annotations

from typing import Any


def replica_document(profile: str, **engine_args: Any) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "model": "sim",
        "aliases": [],
        "engine": {
            "kind": "sim",
            "architecture": "smollm2-135m",
            "profile": profile,
            "max_model_len": 2048,
            "max_num_seqs": 32,
            "kv_cache_bytes": 4 << 30,
            "startup_s": 0,
            "engine_args": engine_args,
        },
        "load_timeout_s": 60,
        "drain_timeout_s": 20,
    }
