"""Weights before anything else: the program's messages become progress, or a mistake in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.environment import Environment
from cli.errors import WRONG_INPUT, explained
from cli.machine import preparation
from cli.machine.weights import environment_of, prepare_weights
from slipway.config.artifacts import bundle_files, read_artifacts
from slipway.config.document import read_document
from slipway.config.model import Model, parse_model
from stacks.planning import make_plan
from tests.unit.cli.checkouts import ROOT
from tests.unit.planner.fleets import OWNED, fleet, model_file

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL = f"""\
name: tiny
source:
  package: tiny-model==1.0
  file: tiny.gguf
  sha256: {SHA256}
engine: {{kind: vllm}}
"""
DIRECTORY = "weights/tiny-0123456789ab"
BUNDLE = "triton_vllm-cccccccccccc"
PROGRAM = "load.py"

Seen = list[tuple[str, str, str]]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "tiny.yaml"
    path.write_text(MODEL)
    document = read_document(path, source="models/tiny.yaml")
    return parse_model(document.values, origin=document.origin)


def plan_of(model: Model, **changes: str) -> Any:
    assert model.settings.source is not None
    source = model.settings.source.model_dump() | changes
    document = {"schema_version": 1, "source": source, "directory": DIRECTORY}
    weights = SimpleNamespace(
        directory=DIRECTORY,
        document=document,
        python="loader",
        entrypoint=PROGRAM,
        fetched_by_hosts=False,
    )
    replica = SimpleNamespace(
        environments={"loader": "loader-dddddddddddd"}, bundle=BUNDLE, weights=weights
    )
    simulated = SimpleNamespace(name="sim", replica=SimpleNamespace(weights=None))
    return SimpleNamespace(models=(simulated, SimpleNamespace(name="tiny", replica=replica)))


def put_python(environment: Environment) -> None:
    folder = environment.cache / "envs" / "loader-dddddddddddd" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)


def put_program(environment: Environment, text: str) -> None:
    """A program that stands in for the engine's own."""
    put_python(environment)
    folder = environment.cache / "bundles" / BUNDLE
    folder.mkdir(parents=True)
    (folder / PROGRAM).write_text(f"import json, os, sys\n{text}")


def said(*events: dict[str, Any], code: int = 0) -> str:
    lines = [json.dumps({"elapsed_s": 1.5, **event}) for event in events]
    return f"print({chr(10).join(lines)!r})\nsys.exit({code})\n"


def progress(phase: str, **facts: Any) -> dict[str, Any]:
    return {"event": "progress", "phase": phase, **facts}


def prepare(environment: Environment, model: Model, **changes: str) -> Seen:
    seen: Seen = []
    prepare_weights(
        environment,
        plan_of(model, **changes),
        {"tiny": model},
        lambda name, state, _elapsed_s, detail: seen.append((name, state, detail)),
    )
    return seen


def told(environment: Environment, model: Model, **changes: str) -> tuple[int, str]:
    """Exit code and message of the failure."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  (explained knows which)
        prepare(environment, model, **changes)
    error = explained(raised.value, "up")
    assert error is not None
    return error.exit_code, f"{error.message}\n{error.fix}"


def test_each_step_is_shown_with_the_bytes_that_have_come(
    environment: Environment, model: Model
) -> None:
    events = [
        progress("waiting_for_lock"),
        progress("downloading", received_bytes=12_400_000, total_bytes=87_000_000),
        progress("downloading", received_bytes=12_400_000, total_bytes=0),
        progress("ready", directory=DIRECTORY),
    ]
    put_program(environment, said(*events))
    assert prepare(environment, model) == [
        ("weights of tiny", "waiting for lock", ""),
        ("weights of tiny", "downloading", "12 of 87 MB"),
        ("weights of tiny", "downloading", "12 MB"),
        ("weights of tiny", "ready", ""),
    ]


def test_the_program_gets_the_document_of_the_job_and_the_cache_as_its_runtime_folder(
    environment: Environment, model: Model
) -> None:
    put_program(
        environment,
        "document = json.load(open(sys.argv[2]))\n"
        "os.makedirs(os.path.join(os.environ['SLIPWAY_RUNTIME'], document['directory']))\n",
    )
    assert prepare(environment, model) == []
    assert (environment.cache / DIRECTORY).is_dir()


def test_temporary_files_of_the_program_are_removed(environment: Environment, model: Model) -> None:
    put_program(
        environment,
        "import tempfile\n"
        "with open(os.path.join(os.environ['SLIPWAY_RUNTIME'], 'told'), 'w') as file:\n"
        "    file.write(tempfile.mkdtemp())\n",
    )
    prepare(environment, model)
    assert not Path((environment.cache / "told").read_text()).exists()


def test_existing_weights_need_no_program(environment: Environment, model: Model) -> None:
    (environment.cache / DIRECTORY).mkdir(parents=True)
    assert prepare(environment, model) == []


def test_a_wrong_checksum_is_a_mistake_in_the_models_file(
    environment: Environment, model: Model
) -> None:
    error = {
        "event": "error",
        "message": "source.sha256: tiny.gguf of tiny-model==1.0 has another checksum",
        "key": "source.sha256",
        "fix": "if you trust this package, set sha256 to 1f",
    }
    put_program(environment, said(progress("downloading"), error, code=2))
    code, message = told(environment, model)
    assert code == WRONG_INPUT
    assert "models/tiny.yaml:5: source.sha256: tiny.gguf of tiny-model==1.0 has" in message
    assert f'(found "{SHA256[:20]}' in message
    assert "fix: if you trust this package, set sha256 to 1f" in message
    assert "nothing was changed" in message


def test_a_registry_that_does_not_answer_is_this_machines_fault(
    environment: Environment, model: Model
) -> None:
    error = {"event": "error", "message": "tiny-model==1.0 cannot be downloaded", "fix": "get on"}
    put_program(environment, said(error, code=1))
    code, message = told(environment, model)
    assert code == 1
    assert "weights of tiny could not be prepared: tiny-model==1.0 cannot be" in message
    assert "nothing was changed" in message
    assert "get on, then run slipway up again" in message


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("sys.stderr.write('a warning\\nMemoryError'); sys.exit(1)", "exit code 1: MemoryError"),
        ("os.kill(os.getpid(), 9)", "signal 9: no reason given"),
    ],
)
def test_a_program_that_ends_silently_is_reported_by_its_exit(
    environment: Environment, model: Model, end: str, reason: str
) -> None:
    put_program(environment, end)
    code, message = told(environment, model)
    assert (code, reason in message, "memory" in message) == (1, True, True), message


def test_an_interrupt_ends_the_program(environment: Environment, model: Model) -> None:
    put_program(
        environment,
        "import signal, time\n"
        "ended = os.path.join(os.environ['SLIPWAY_RUNTIME'], 'ended')\n"
        "signal.signal(signal.SIGTERM, lambda *_: (open(ended, 'w').close(), sys.exit(143)))\n"
        f"print({json.dumps({'elapsed_s': 0, **progress('downloading')})!r}, flush=True)\n"
        "time.sleep(60)\n",
    )

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_weights(environment, plan_of(model), {"tiny": model}, interrupt)
    assert (environment.cache / "ended").exists()


def test_the_real_programs_refusal_names_file_line_and_key(
    environment: Environment, model: Model
) -> None:
    put_python(environment)
    for path in bundle_files(ROOT, "triton_vllm"):
        target = environment.cache / "bundles" / BUNDLE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / "services" / "triton_vllm" / path).read_bytes())
    bundle = environment.cache / "bundles" / BUNDLE
    (bundle / "weights.py").rename(bundle / PROGRAM)
    code, message = told(environment, model, file="folder/tiny.gguf")
    assert code == WRONG_INPUT
    assert "models/tiny.yaml:4: source.file: 'folder/tiny.gguf' is not" in message


def test_weights_of_replicas_in_containers_are_prepared_by_the_operators_own_environment(
    tmp_path: Path,
) -> None:
    """Containers have an image instead of environments."""
    source = {"path": "/srv/models/chat", "revision": "1"}
    image = {"runtime": "container", "image": f"registry.example/triton@sha256:{'0' * 64}"}
    plan = make_plan(fleet(model_file(source=source), pools={"own": OWNED | image}))
    replica = plan.models[0].replica
    assert replica.weights is not None
    assert replica.environments == {}
    folder = environment_of(replica.weights, replica, ROOT)
    assert folder == read_artifacts(ROOT).environments["vllm"]
    environment = Environment(name="fleet", checkout=ROOT, cache=tmp_path)
    made = {job.name for job in preparation._jobs(environment, plan)}
    assert "vllm" in made
