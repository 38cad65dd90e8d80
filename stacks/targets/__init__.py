"""Targets: each module here names the realisations of one target and contains none itself.

A target can be built if it has a module here. `Platform` builds environments from the module's
`TARGET`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # asking whether a target is built does not import Pulumi
    from stacks.platform import Target

FOLDER = Path("stacks") / "targets"


def is_built(target: str, checkout: Path) -> bool:
    """Whether `checkout` can bring up environments of this target; otherwise it can only plan
    them."""
    named = target.isidentifier() and not target.startswith("_")
    return named and (checkout / FOLDER / f"{target}.py").is_file()


def load(target: str) -> Target:
    """The realisations of a target that is built."""
    chosen: Target = importlib.import_module(f"{__name__}.{target}").TARGET
    return chosen
