"""Where the programs of a node are, for tasks that run there: in the folder that its Nomad client
announces."""

from __future__ import annotations

RUNTIME = "${meta.runtime}"


def python(environment: str) -> str:
    """The interpreter of an environment."""
    return f"{RUNTIME}/envs/{environment}/bin/python"


def program(bundle: str, script: str) -> str:
    """A script of a bundle."""
    return f"{RUNTIME}/bundles/{bundle}/{script}"
