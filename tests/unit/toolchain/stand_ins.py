"""A small stand-in tool with all sources faked, and a process that resolves it.

`python -m tests.unit.toolchain.stand_ins WORK` resolves the tool with the cache WORK/cache, taking
its settings from the environment, and prints `<source> <path>`; progress goes to stderr.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.lanes import side_by_side
from toolchain.pins import ArchivePin, ModulePin, ToolPin
from toolchain.resolve import resolve
from toolchain.settings import Settings

VERSION = "1.2.3"
ARCHIVE = f"hammer_{VERSION}.zip"


def program(version: str = VERSION) -> str:
    return f'#!/bin/sh\necho "Hammer v{version} (a stand-in)"\n'


def put_program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def zip_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tar_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive_pin(
    *, sha: str | None = None, name: str = ARCHIVE, member: str = "hammer"
) -> ArchivePin:
    return ArchivePin(address=f"http://127.90.0.2:9/{name}", members=(member,), sha256=sha)


def pin(
    work: Path, *, archive: ArchivePin | None = None, module: bool = True, name: str = "hammer"
) -> ToolPin:
    """The stand-in's pin; its module folder is made under `work`."""
    folder = work / "module"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module example.test/hammer\n\ngo 1.26.0\n")
    (folder / "go.sum").write_text("")
    return ToolPin(
        name=name,
        version=VERSION,
        binaries=("hammer",),
        version_arguments=("version",),
        archive=archive,
        module=ModulePin(
            folder=folder,
            packages={"hammer": "example.test/hammer"},
            cgo=False,
            tags=(),
            ldflags=("-s",),
        )
        if module
        else None,
    )


def put_go(folder: Path, *, build: str, version: str = "go1.26.8", modules: str = "true") -> Path:
    """A `go` that knows `env GOVERSION`, runs the shell text `modules` for `list`, which downloads
    them, and `build` with $out as target."""
    return put_program(
        folder / "go",
        "#!/bin/sh\n"
        f'[ "$1" = env ] && {{ echo "{version}"; exit 0; }}\n'
        f'[ "$1" = list ] && {{ {modules}; exit; }}\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'out="$2"\n'
        f"{build}\n",
    )


def build_of(version: str = VERSION) -> str:
    """The shell text of a build that succeeds."""
    return (
        f'printf \'#!/bin/sh\\necho "Hammer v{version}"\\n\' > "${{out}}hammer"\n'
        'chmod 755 "${out}hammer"'
    )


def files_under(folder: Path) -> set[str]:
    """Every file below, without lock files and logs."""
    return {
        str(Path(parent, name).relative_to(folder))
        for parent, _, names in os.walk(folder)
        for name in names
        if not name.endswith((".lock", ".log"))
    }


def is_program(file: Path) -> bool:
    return bool(file.stat().st_mode & stat.S_IXUSR)


def main(work: Path) -> int:
    # A test runner in the background may ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = Settings.read(work / "cache")
    archive = archive_pin() if settings.checksums else None
    the_pin = pin(work, archive=archive)

    def show(*event: object) -> None:
        print(*event, file=sys.stderr, flush=True)

    try:
        tool = side_by_side({"hammer": lambda step: resolve(the_pin, settings, step)}, show)
    except ToolchainError as error:
        print(error)
        return error.exit_code
    print(tool["hammer"].source, tool["hammer"].path)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
