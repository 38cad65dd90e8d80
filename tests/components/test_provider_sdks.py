"""An SDK is loaded class by class."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.provider_sdks import load_on_use

SDK = "sdk_of_a_test"
MODULES = {
    "__init__.py": "from .acl_policy import *\nfrom .job import *\n",
    "acl_policy.py": "from . import _utilities\nclass AclPolicy: version = _utilities.VERSION\n",
    "job.py": "class Job: pass\n",
    "_inputs.py": "class JobTaskArgs: pass\n",
    "_utilities.py": "VERSION = 3\n",
}


@pytest.fixture(autouse=True)
def _an_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / SDK).mkdir()
    for name, text in MODULES.items():
        (tmp_path / SDK / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in _loaded():
        del sys.modules[name]


def test_a_class_is_found_in_the_module_of_its_name_and_no_other_is_loaded() -> None:
    load_on_use(SDK)
    assert importlib.import_module(SDK).AclPolicy.version == 3
    assert f"{SDK}.acl_policy" in _loaded()
    assert f"{SDK}.job" not in _loaded()


def test_arguments_are_found_in_the_module_of_all_arguments() -> None:
    load_on_use(SDK)
    assert importlib.import_module(SDK).JobTaskArgs.__name__ == "JobTaskArgs"


def test_what_an_sdk_does_not_have_is_an_error_that_names_it() -> None:
    load_on_use(SDK)
    with pytest.raises(AttributeError, match=f"{SDK} has no Volume"):
        _ = importlib.import_module(SDK).Volume


def test_an_sdk_that_is_already_imported_is_left_as_it_is() -> None:
    whole = importlib.import_module(SDK)
    load_on_use(SDK)
    assert importlib.import_module(SDK) is whole


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == SDK]
