"""Makes an image in the layout of Triton's stock image, as an archive for `docker load`.

    python stock_image.py --engine FAKE_VLLM.py --version 0.32.0 ARCHIVE

Run by the Python of the environment `triton`, whose packages the image gets: Triton below
/opt/tritonserver, everything else beside the image's own Python. Its vLLM is the file FAKE_VLLM.py.
No registry is asked. Prints the image's ID.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

OPT = "opt/tritonserver"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROGRAMS = ("bash", "env", "sh", "sleep", "cat")  # Triton starts its stubs by a shell
# Folders of Python's library that nothing here uses.
NOT_NEEDED = {"test", "tests", "idlelib", "ensurepip", "lib2to3", "site-packages"}
ENGINE = "vllm/entrypoints/launchers/api_server/entry.py"
# What the service's own server looks for in vLLM, besides its entry.
ENGINE_CLIENT = "vllm/v1/engine/async_llm.py", "class OutputProcessor:\n    pass\n"
VARIABLES = ("PATH=/usr/local/bin:/usr/bin:/bin", f"LD_LIBRARY_PATH=/{OPT}/lib")


def packed_by(python: Path, engine: Path, version: str, archive: Path) -> str:
    """The ID of the image that this Python, of an environment with Triton, packs into the file."""
    words = ["--engine", str(engine), "--version", version, str(archive)]
    command = [str(python), __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of the vLLM that the image says it has")
    parser.add_argument("archive", type=Path)
    arguments = parser.parse_args()
    layer = arguments.archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        _fill(_Layer(tar), arguments.engine, arguments.version)
    try:
        print(_pack(layer, arguments.archive))
    finally:
        layer.unlink()


class _Layer:
    """A file system in a tar file, to which each path is added once."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._added: set[str] = set()

    def add(self, source: Path, target: str) -> None:
        """A file, or a folder with what is in it; links become what they point to."""
        if source.is_dir():
            for entry in sorted(source.iterdir()):
                if entry.name not in NOT_NEEDED:
                    self.add(entry, f"{target}/{entry.name}")
        elif target not in self._added:
            self._added.add(target)
            info = self._tar.gettarinfo(str(source.resolve()), target)
            with source.open("rb") as content:
                self._tar.addfile(_owned_by_root(info), content)

    def write(self, target: str, text: str) -> None:
        self._added.add(target)
        info = tarfile.TarInfo(target)
        info.size, info.mode = len(text.encode()), 0o644
        self._tar.addfile(info, io.BytesIO(text.encode()))

    def link(self, target: str, to: str, kind: bytes = tarfile.SYMTYPE) -> None:
        if target not in self._added:
            self._added.add(target)
            info = tarfile.TarInfo(target)
            info.type, info.linkname, info.mode = kind, to, 0o755
            self._tar.addfile(info)

    def folder(self, target: str, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(target)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)


def _fill(layer: _Layer, engine: Path, version: str) -> None:
    layer.folder("tmp", 0o1777)
    for name in ("dev", "proc", "sys", "root"):
        layer.folder(name)
    for name in PROGRAMS:
        program = Path(f"/bin/{name}")
        layer.add(program, f"usr/bin/{name}")
        _add_libraries(layer, [program])
    layer.link("bin", "usr/bin")
    layer.link("lib64/ld-linux-x86-64.so.2", f"/{LIBRARIES}/ld-linux-x86-64.so.2")
    _add_python(layer)
    _add_packages(layer)
    _add_triton(layer)
    layer.write(f"{_packages_folder()}/{ENGINE}", engine.read_text(encoding="utf-8"))
    client, code = ENGINE_CLIENT
    layer.write(f"{_packages_folder()}/{client}", code)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
    layer.write(f"{_packages_folder()}/vllm-{version}.dist-info/METADATA", metadata)


def _add_python(layer: _Layer) -> None:
    """The interpreter at its own path, and as /usr/bin/python3."""
    interpreter = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    library = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(
        sysconfig.get_config_var("INSTSONAME")
    )
    standard = Path(sysconfig.get_path("stdlib"))
    layer.add(interpreter, _inside(interpreter))
    layer.add(standard, _inside(standard))
    layer.add(library, f"{LIBRARIES}/{library.name}")
    layer.link("usr/bin/python3", str(interpreter))
    modules = standard.glob("lib-dynload/*.so")
    _add_libraries(layer, [interpreter, library, *modules])


def _add_packages(layer: _Layer) -> None:
    """Everything but Triton, which images have elsewhere."""
    for entry in _environment_packages().iterdir():
        if "pytriton" not in entry.name:
            layer.add(entry, f"{_packages_folder()}/{entry.name}")


def _add_triton(layer: _Layer) -> None:
    packages = _environment_packages()
    server = packages / "pytriton/tritonserver"
    stub = server / "python_backend_stubs" / sysconfig.get_python_version()
    layer.add(server / "bin", f"{OPT}/bin")
    # A second name, for tests that hide the first.
    layer.link(f"{OPT}/sbin/tritonserver", f"{OPT}/bin/tritonserver", tarfile.LNKTYPE)
    layer.add(server / "backends", f"{OPT}/backends")
    layer.add(packages / "nvidia_pytriton.libs", f"{OPT}/lib")
    for file in stub.iterdir():
        layer.add(file, f"{OPT}/backends/python/{file.name}")
    _add_libraries(layer, [*server.glob("bin/*"), *server.rglob("*.so"), *stub.iterdir()])


def _add_libraries(layer: _Layer, programs: Iterable[Path]) -> None:
    for library in _libraries(programs):
        if "nvidia_pytriton" not in str(library):
            layer.add(library, f"{LIBRARIES}/{library.name}")


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """What the loader of this machine finds for them."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    for path in re.findall(r"(?:=> |^\s+)(/\S+) \(", done.stdout, re.M):
        yield Path(path)


def _environment_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _packages_folder() -> str:
    """Where the image's Python looks for packages."""
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
    return _inside(Path(sysconfig.get_path("purelib", vars=base)))


def _inside(path: Path) -> str:
    return str(path).removeprefix("/")


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def _pack(layer: Path, archive: Path) -> str:
    """Writes the archive; returns the image's ID, which is the checksum of its configuration."""
    with layer.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": VARIABLES, "Entrypoint": ["/opt/banner.sh"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{checksum}"]},
        }
    ).encode()
    image = hashlib.sha256(configuration).hexdigest()
    manifest = [{"Config": f"{image}.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for name, text in (
            (f"{image}.json", configuration),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return f"sha256:{image}"


if __name__ == "__main__":
    main()
