"""The programs of services/aws that come with the user data of instances."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "services" / "aws"


def boot_programs(*names: str) -> dict[str, str]:
    """The text of files of services/aws, and of the files in its folders, by path."""
    found = [path for name in names for path in [FOLDER / name, *(FOLDER / name).glob("*.py")]]
    return {
        path.relative_to(FOLDER).as_posix(): path.read_text() for path in found if path.is_file()
    }
