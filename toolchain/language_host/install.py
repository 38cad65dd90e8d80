"""Puts the registry-only Python language host where Pulumi looks for it: in a folder on PATH."""

from pathlib import Path

from toolchain.plugins.wrapper import write_wrapper


def install(folder: Path, python: Path, checkout: Path) -> None:
    """Write `pulumi-language-python` into `folder`. Idempotent and atomic.

    Args:
        folder: a folder on PATH; not the CLI's own when that is shared between checkouts.
        python: an interpreter with the `pulumi` package (3.11).
        checkout: the root of this repository; the wrapper runs code from it.
    """
    program = checkout / "toolchain" / "plugins" / "main.py"
    wrapper = folder / "pulumi-language-python"
    write_wrapper(wrapper, python, program, "toolchain.language_host.main")
