"""Targets: each module here names the realisations of one target and contains none itself.

A target can be built if it has a module here. `Platform` builds environments from the module's
`TARGET`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # asking whether a target is built does not import Pulumi
    from stacks.platform import Target

FOLDER = Path("stacks") / "targets"
CHECKOUT = Path(__file__).parents[2]


def is_built(target: str, checkout: Path) -> bool:
    """Whether `checkout` can bring up environments of this target; otherwise it can only plan
    them."""
    named = target.isidentifier() and not target.startswith("_")
    return named and (checkout / FOLDER / f"{target}.py").is_file()


# Of targets whose SDK is not beside the program (requirements-aws.txt): the link to its environment
# in the checkout, the SDK, and its packages of which some classes are used.
SDKS = {
    "aws": (
        ".venv-aws",
        "pulumi_aws",
        ("autoscaling", "ec2", "ec2transitgateway", "iam", "lb", "s3", "secretsmanager", "vpc"),
    )
}


class NoSdkError(Exception):
    """The SDK of a target is not installed; says how it will be."""


def load(target: str, checkout: Path = CHECKOUT) -> Target:
    """The realisations of a target that is built. Raises NoSdkError."""
    if target in SDKS:
        _find_sdk(checkout, *SDKS[target])
    chosen: Target = importlib.import_module(f"{__name__}.{target}").TARGET
    return chosen


def _find_sdk(checkout: Path, link: str, name: str, packages: Sequence[str]) -> None:
    """Lets the SDK be imported, class by class."""
    from components.provider_sdks import load_on_use  # noqa: PLC0415  (a question needs no Pulumi)

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = str(checkout / link / "lib" / version / "site-packages")
    if not Path(folder, name).is_dir():
        raise NoSdkError(
            f"{link} has no {name}: any command of slipway for the environment makes it"
        )
    if folder not in sys.path:
        sys.path.append(folder)
    load_on_use(name, *(f"{name}.{package}" for package in packages))
