"""How Triton is started: model repository, private backend folder, command line, environment."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replica.errors import RunError
from replica.programs import Triton
from replica.settings import Settings

BACKEND_SOURCE = Path(__file__).resolve().parent.parent / "backend"

# name, Triton type, dims, optional: the tensors of Triton's own vLLM backend
INPUTS: tuple[tuple[str, str, int, bool], ...] = (
    ("text_input", "TYPE_STRING", 1, False),
    ("image", "TYPE_STRING", -1, True),
    ("stream", "TYPE_BOOL", 1, True),
    ("sampling_parameters", "TYPE_STRING", 1, True),
    ("exclude_input_in_output", "TYPE_BOOL", 1, True),
    ("return_finish_reason", "TYPE_BOOL", 1, True),
    ("return_cumulative_logprob", "TYPE_BOOL", 1, True),
    ("return_logprobs", "TYPE_BOOL", 1, True),
    ("return_num_input_tokens", "TYPE_BOOL", 1, True),
    ("return_num_output_tokens", "TYPE_BOOL", 1, True),
    ("embedding_request", "TYPE_STRING", 1, True),
)
OUTPUTS: tuple[tuple[str, str, int], ...] = (
    ("text_output", "TYPE_STRING", -1),
    ("finish_reason", "TYPE_STRING", -1),
    ("cumulative_logprob", "TYPE_FP32", -1),
    ("logprobs", "TYPE_STRING", -1),
    ("num_input_tokens", "TYPE_UINT32", 1),
    ("num_output_tokens", "TYPE_UINT32", -1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """Where stubs tell that they run: a number each, from `first` on."""

    path: str
    first: int


def model_config(name: str, parameters: Mapping[str, str]) -> str:
    """`config.pbtxt` of one model name."""
    blocks = [
        f'name: "{name}"',
        'backend: "python"',
        "max_batch_size: 0",  # the engine batches
        "model_transaction_policy { decoupled: true }",
        "instance_group [{ kind: KIND_CPU count: 1 }]",
        *(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in parameters.items()
        ),
    ]
    for tensor, data_type, dims, optional in INPUTS:
        suffix = " optional: true" if optional else ""
        blocks.append(
            f'input {{ name: "{tensor}" data_type: {data_type} dims: [ {dims} ]{suffix} }}'
        )
    for tensor, data_type, dims in OUTPUTS:
        blocks.append(f'output {{ name: "{tensor}" data_type: {data_type} dims: [ {dims} ] }}')
    return "\n".join(blocks) + "\n"


def write_model_repository(
    folder: Path, names: Sequence[str], engine_url: str, beats: Beats | None
) -> None:
    """One Triton model per name: Triton knows no aliases."""
    for number, name in enumerate(names):
        parameters = {"engine_url": engine_url}
        if beats is not None:
            parameters |= {"beat_path": beats.path, "beat_number": str(beats.first + number)}
        model = folder / name
        model.mkdir(parents=True)
        (model / "config.pbtxt").write_text(model_config(name, parameters), encoding="utf-8")
        shutil.copytree(
            BACKEND_SOURCE, model / "1", ignore=shutil.ignore_patterns("__pycache__", ".*")
        )


def write_backend_folder(folder: Path, triton: Triton) -> None:
    """Writes the Python backend with its stub beside it, as Triton expects. Raises RunError where
    a file is missing."""
    (folder / "python").mkdir(parents=True)
    for source in triton.python_backend:
        if not source.exists():
            raise RunError(f"{source} is missing: this installation of Triton is not complete")
        (folder / "python" / source.name).symlink_to(source)


def triton_command(
    triton: Triton,
    settings: Settings,
    repository: Path,
    backends: Path,
    shared_memory_prefix: str,
) -> list[str]:
    return [
        str(triton.server),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        # The configuration is complete, and the stub that would complete it would look like a
        # crash.
        "--disable-auto-complete-config",
        f"--backend-config=python,shm-region-prefix-name={shared_memory_prefix}",
        f"--http-address={settings.address}",
        f"--http-port={settings.port_http}",
        f"--grpc-address={settings.address}",
        f"--grpc-port={settings.port_grpc}",
        f"--metrics-address={settings.address}",
        f"--metrics-port={settings.port_metrics}",
        "--reuse-grpc-port=0",
        # Envoy pings a quiet connection every 20 s. A gRPC server treats the third such ping within
        # minutes as abuse and closes the connection, with every stream on it.
        "--grpc-http2-max-ping-strikes=0",
        "--allow-gpu-metrics=false",
        "--exit-timeout-secs=5",  # nothing is in flight by then
    ]


def triton_environment(triton: Triton, inherited: Mapping[str, str]) -> dict[str, str]:
    """The stub takes its packages from the first python3 on PATH; PYTHONPATH is ignored."""
    libraries = [*map(str, triton.libraries), inherited.get("LD_LIBRARY_PATH", "")]
    return {
        **inherited,
        "PATH": f"{triton.python.parent}:{inherited.get('PATH', '/usr/bin:/bin')}",
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
    }
