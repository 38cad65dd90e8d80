"""Installing the registry-only plugins and the language host."""

import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.language_host.install import install as install_language_host
from toolchain.plugins.install import PROVIDERS, install, sdk_version
from toolchain.plugins.wrapper import write_wrapper

CHECKOUT = Path(__file__).resolve().parents[2]
PYTHON = Path(sys.executable)


def _files(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}


def test_every_provider_lies_where_pulumi_looks_for_the_version_its_sdk_asks_for(
    tmp_path: Path,
) -> None:
    install(tmp_path, PYTHON, CHECKOUT)
    for name in PROVIDERS:
        folder = tmp_path / "plugins" / f"resource-{name}-v{sdk_version(PYTHON, name)}"
        assert [path.name for path in folder.iterdir()] == [f"pulumi-resource-{name}"]


def test_installing_again_changes_nothing_and_repairs_what_is_broken(tmp_path: Path) -> None:
    install(tmp_path, PYTHON, CHECKOUT)
    install_language_host(tmp_path, PYTHON, CHECKOUT)
    before = _files(tmp_path)
    wrapper = tmp_path / "pulumi-language-python"
    content = wrapper.read_text()
    install(tmp_path, PYTHON, CHECKOUT)
    install_language_host(tmp_path, PYTHON, CHECKOUT)
    assert _files(tmp_path) == before
    wrapper.write_text("damaged")
    install_language_host(tmp_path, PYTHON, CHECKOUT)
    assert wrapper.read_text() == content


def test_a_missing_sdk_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="pulumi_command is not installed"):
        install(tmp_path, tmp_path / "bin" / "python", CHECKOUT)


def test_a_wrapper_passes_arguments_on_whatever_the_names_of_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / ('it\'s a "long" $HOME name ' + "x" * 120)
    folder.mkdir()
    program = folder / "program.py"
    program.write_text("import sys; print(sys.argv[1:])")
    write_wrapper(folder / "run", PYTHON, program, "a b", "$c")
    shown = subprocess.run([folder / "run", "d e"], capture_output=True, text=True, check=True)
    assert shown.stdout == "['a b', '$c', 'd e']\n"
