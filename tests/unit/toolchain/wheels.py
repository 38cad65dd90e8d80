"""A Python package built in the test, so that environment tests need no index."""

from __future__ import annotations

import zipfile
from pathlib import Path


def put_wheel(
    folder: Path, *, name: str = "nail", version: str = "1.0", others: tuple[str, ...] = ()
) -> Path:
    """Writes a wheel of a package with one module, and with empty files at these `others`, and a
    requirements file for it; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f'VERSION = "{version}"\n',
        **dict.fromkeys(others, ""),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{name} @ {wheel.as_uri()}\n")
    return requirements
