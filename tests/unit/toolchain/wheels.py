"""A Python package built in the test, so that environment tests need no index."""

from __future__ import annotations

import zipfile
from pathlib import Path


def put_wheel(folder: Path, *, version: str = "1.0") -> Path:
    """Writes a wheel of the package `nail` and a requirements file for it; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"nail-{version}-py3-none-any.whl"
    info = f"nail-{version}.dist-info"
    files = {
        "nail.py": f'VERSION = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: nail\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"nail.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"nail @ {wheel.as_uri()}\n")
    return requirements
