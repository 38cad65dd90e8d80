"""Documents, their schemas, and the commands they become."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from generation import MOST_CHOICES
from replica.document import ALIAS, load_document
from replica.engine import check_devices, engine_command, engine_environment
from replica.errors import InputError
from replica.programs import of_environments, of_this_image
from replica.settings import Settings, read_settings
from replica_process import ALIAS as SMALL
from replica_process import REPLICA_HANG_S, SERVICE, ReplicaProcess, document

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
BEFORE = Path(__file__).parent / "documents_of_before"
OWN_SERVER = "device_engine_server.py"  # which forks nothing
ENVIRONMENT = {
    "SLIPWAY_ADDRESS": "127.92.0.3",
    "SLIPWAY_PORT_OPENAI": "8000",
    "SLIPWAY_PORT_GRPC": "8001",
    "SLIPWAY_PORT_HTTP": "8002",
    "SLIPWAY_PORT_METRICS": "8003",
    "SLIPWAY_RUNTIME": "/runtime",
    "SLIPWAY_SCRATCH": "/scratch",
    "NOMAD_ALLOC_ID": "5456bd7a-9fc0-c0dd-6131-cbee77f57577",
}


FOLDERS = {"SLIPWAY_ENV_TRITON": "/envs/triton", "SLIPWAY_ENV_VLLM": "/envs/vllm"}
PROGRAMS = of_environments(FOLDERS)


def settings(**changes: str) -> Settings:
    return read_settings({**ENVIRONMENT, **changes})


def command(tmp_path: Path, engine_args: dict[str, Any]) -> str:
    engine = {**document()["engine"], "engine_args": engine_args}
    return command_of(tmp_path, document(engine=engine))


def broken(**changes: Any) -> dict[str, Any]:
    """A document with one field of its engine, or of itself, changed; None removes it."""
    content = document()
    for name, value in changes.items():
        owner = content["engine"] if name in content["engine"] else content
        if value is None:
            del owner[name]
        else:
            owner[name] = value
    return content


def on_accelerators(**changes: Any) -> dict[str, Any]:
    """With everything that only accelerators have, on four devices."""
    engine = {
        "kind": "vllm",
        "dtype": "auto",
        "max_model_len": 8192,
        "max_num_seqs": 64,
        "gpu_memory_utilization": 0.85,
        "quantization": "fp8",
        "kv_cache_dtype": "fp8",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 2,
        "expert_parallel": True,
        "engine_args": {},
    }
    devices = {"vendor": "nvidia", "count": 4}
    return document(devices=devices, engine=engine | changes)


BROKEN = [
    ({**on_accelerators(), "container": {"vllm": 1}}, "vllm: expected str, got int"),
    (broken(schema_version=5), "schema_version 5 is not one of (3, 4)"),
    (broken(stall_s=None), "stall_s: None is not a number of seconds"),
    (broken(longest_step_s="1"), "longest_step_s: '1' is not a number of seconds"),
    ({**on_accelerators(), "devices": {"vendor": "acme", "count": 1}}, "'acme' is not one of"),
    ({**on_accelerators(), "devices": {"vendor": "amd", "count": 0}}, "count: 0 is not above 0"),
    (broken(model=None), "model: missing"),
    (broken(model="../up"), "model: '../up' is not a name"),
    (broken(aliases=["small", ""]), "aliases: '' is not a name"),
    (broken(aliases=["org/small"]), "aliases: 'org/small' is not a name"),
    (broken(aliases=["-small"]), "aliases: '-small' is not a name"),
    (broken(weights=None), "weights: missing"),
    (broken(max_num_seqs=0), "max_num_seqs: 0 is not above 0"),
    (broken(kv_cache_bytes="1 GiB"), "kv_cache_bytes: expected int, got str"),
    (broken(max_model_len=True), "max_model_len: expected int, got bool"),
    (broken(kind="sim"), "this service runs 'vllm' only"),
    (broken(engine_args=[]), "engine_args: expected dict, got list"),
    (broken(kv_cache_bytes=None), "kv_cache_bytes: missing"),
    (on_accelerators(gpu_memory_utilization=1.5), "1.5 is not above 0 and at most 1"),
    (on_accelerators(kv_cache_bytes=1), "contradict each other"),
    (on_accelerators(expert_parallel=2), "expert_parallel: expected bool, got int"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_broken_document_is_refused_by_reader_and_schema(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    file = tmp_path / "replica.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"replica\.json") as refusal:
        load_document(file)
    assert message in str(refusal.value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema("replica"))


def test_reader_and_schema_take_the_same_document(tmp_path: Path) -> None:
    file = tmp_path / "replica.json"
    file.write_text(json.dumps(document()))
    jsonschema.validate(document(), schema("replica"))
    assert load_document(file).names == ("smollm2", SMALL)


def test_reader_and_schema_agree_on_what_an_alias_is() -> None:
    assert schema("replica")["$defs"]["alias"]["pattern"] == f"^{ALIAS.pattern}$"


def test_the_schema_takes_a_simulators_document_without_weights() -> None:
    content = document()
    del content["weights"]
    content["engine"] = {
        "kind": "sim",
        "architecture": "llama-3.1-8b",
        "profile": "h100-fp8",
        "max_model_len": 8192,
        "max_num_seqs": 64,
        "kv_cache_bytes": 1 << 34,
        "startup_s": 0,
        "engine_args": {},
    }
    jsonschema.validate(content, schema("replica"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "weights": "weights/x"}, schema("replica"))


@pytest.mark.parametrize("name", ["replica", "weights"])
def test_the_schemas_are_valid_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_the_engine_gets_what_the_document_says(tmp_path: Path) -> None:
    words = command(tmp_path, {})
    for expected in (
        f"/envs/vllm/bin/python {SERVICE / 'engine_server.py'} --",
        f"--served-model-name smollm2 {SMALL}",
        "--model /runtime/weights/none",
        "--host 127.92.0.3",
        "--kv-cache-memory-bytes 1073741824",
        "--enforce-eager",
        "--tool-call-parser hermes",
    ):
        assert expected in words


def command_of(tmp_path: Path, content: dict[str, Any], **environment: str) -> str:
    file = tmp_path / "replica.json"
    file.write_text(json.dumps(content))
    jsonschema.validate(content, schema("replica"))
    return " ".join(engine_command(load_document(file), settings(**environment), PROGRAMS))


def test_an_engine_on_accelerators_gets_its_share_of_memory_and_its_layout(tmp_path: Path) -> None:
    words = command_of(tmp_path, on_accelerators())
    for expected in (
        "--gpu-memory-utilization 0.85",
        "--quantization fp8",
        "--kv-cache-dtype fp8",
        "--tensor-parallel-size 2",
        "--data-parallel-size 2",
        "--enable-expert-parallel",
        "--dtype auto",
    ):
        assert expected in words
    assert "--kv-cache-memory-bytes" not in words  # it would override the share


@pytest.mark.parametrize("quantization", ["awq", "gptq", "nvfp4", "mxfp4", "int8", "fp8-block"])
def test_what_a_checkpoint_declares_is_not_declared_again(
    tmp_path: Path, quantization: str
) -> None:
    assert "--quantization" not in command_of(tmp_path, on_accelerators(quantization=quantization))


def test_a_document_of_the_previous_version_starts_the_engine_that_it_describes(
    tmp_path: Path,
) -> None:
    before = json.loads((BEFORE / "replica.json").read_text())
    assert before["schema_version"] == 3
    words = command_of(tmp_path, before)
    for expected in (
        "--served-model-name smollm2 small",
        "--model /runtime/weights/smollm2-0737ec3c8e9e",
        "--dtype float32",
        "--max-model-len 2048",
        "--max-num-seqs 8",
        "--kv-cache-memory-bytes 1073741824",
        '--override-generation-config {"temperature": 0}',
    ):
        assert expected in words
    for unknown in ("--gpu-memory-utilization", "--quantization", "--enable-expert-parallel"):
        assert unknown not in words


def test_engine_args_add_replace_and_remove_flags(tmp_path: Path) -> None:
    arguments = {
        "enable_prefix_caching": False,
        "enforce-eager": False,
        "tool_call_parser": "llama3_json",
        "enable_auto_tool_choice": None,
        "speculative_config": {"method": "ngram"},
        "lora_modules": ["a=/a", "b=/b"],
    }
    words = command(tmp_path, arguments)
    for expected in (
        "--no-enable-prefix-caching",
        "--no-enforce-eager",
        "--tool-call-parser llama3_json",
        '--speculative-config {"method": "ngram"}',
        "--lora-modules a=/a b=/b",
    ):
        assert expected in words
    assert "--enable-auto-tool-choice" not in words
    assert "hermes" not in words


@pytest.mark.parametrize(
    "name", ["port", "served_model_name", "--host", "uds", "disable_log_stats"]
)
def test_engine_args_cannot_move_the_ports(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="set by Slipway"):
        command(tmp_path, {name: "x"})


def test_with_an_accelerator_vllm_starts_its_own_processes(tmp_path: Path) -> None:
    words = command_of(tmp_path, on_accelerators())
    assert f"/{OWN_SERVER} --served-model-name" in words


@pytest.mark.parametrize("visible", ["", "void", "none", "GPU-1"])
def test_what_the_document_was_planned_for_decides_and_not_the_devices_that_are_seen(
    tmp_path: Path, visible: str
) -> None:
    planned = command_of(tmp_path, on_accelerators(), NVIDIA_VISIBLE_DEVICES=visible)
    assert OWN_SERVER in planned
    assert "--enforce-eager" not in planned
    on_processors = command_of(tmp_path, document(), NVIDIA_VISIBLE_DEVICES=visible)
    assert "engine_server.py" in on_processors
    assert "--enforce-eager" in on_processors


def test_a_planned_accelerator_gets_no_setting_of_processors(tmp_path: Path) -> None:
    environments = []
    for content in (on_accelerators(), document()):
        file = tmp_path / "replica.json"
        file.write_text(json.dumps(content))
        environments.append(engine_environment(load_document(file), settings(), {}, Path("/t")))
    assert ["OMP_NUM_THREADS" in each for each in environments] == [False, True]


def test_each_kind_of_engine_inherits_nothing_that_is_meant_for_the_other(tmp_path: Path) -> None:
    inherited = {
        "VLLM_CPU_SGL_KERNEL": "1",
        "OMP_NUM_THREADS": "64",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "NCCL_DEBUG": "INFO",
        "ROCR_VISIBLE_DEVICES": "GPU-2",
        "PATH": "/bin",
    }
    found = []
    for content in (on_accelerators(), document()):
        file = tmp_path / "replica.json"
        file.write_text(json.dumps(content))
        made = engine_environment(load_document(file), settings(), inherited, Path("/t"))
        found.append({name for name in inherited if made.get(name) == inherited[name]})
    assert found == [
        {"CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "ROCR_VISIBLE_DEVICES", "PATH"},
        {"VLLM_CPU_SGL_KERNEL", "PATH"},
    ]


@pytest.mark.parametrize(
    ("vendor", "variable"), [("nvidia", "NVIDIA_VISIBLE_DEVICES"), ("amd", "ROCR_VISIBLE_DEVICES")]
)
def test_a_replica_that_was_not_given_its_devices_is_refused(
    tmp_path: Path, vendor: str, variable: str
) -> None:
    file = tmp_path / "replica.json"
    file.write_text(json.dumps({**on_accelerators(), "devices": {"vendor": vendor, "count": 4}}))
    planned = load_document(file)
    check_devices(planned, settings(**{variable: "GPU-1,GPU-2,GPU-3,GPU-4"}))
    for given, count in (("GPU-1,GPU-2,GPU-3", 3), ("void", 0), ("", 0)):
        with pytest.raises(InputError, match=f"has 4 {vendor} devices.*{variable} lists {count}"):
            check_devices(planned, settings(**{variable: given}))


def test_a_replica_of_a_document_of_before_is_not_judged(tmp_path: Path) -> None:
    content = document() | {"schema_version": 3}
    del content["stall_s"], content["longest_step_s"]
    file = tmp_path / "replica.json"
    for each, judged in ((document(), True), (content, False)):
        jsonschema.validate(each, schema("replica"))
        file.write_text(json.dumps(each))
        assert (load_document(file).liveness is not None) == judged
    assert settings().port_liveness is None


@pytest.mark.parametrize(
    ("nodes", "numactl", "bound"), [(2, True, True), (2, False, False), (1, True, False)]
)
def test_workers_are_bound_where_a_host_has_several_nodes_and_numactl(
    tmp_path: Path, nodes: int, numactl: bool, bound: bool
) -> None:
    host = dataclasses.replace(settings(), numa_nodes=nodes, has_numactl=numactl)
    for content, expected in ((on_accelerators(), bound), (document(), False)):
        file = tmp_path / "replica.json"
        file.write_text(json.dumps(content))
        words = engine_command(load_document(file), host, PROGRAMS)
        assert ("--numa-bind" in words) == expected


def test_one_cpu_runs_the_model_in_the_engine_core(tmp_path: Path) -> None:
    one = "--distributed-executor-backend vllm.v1.executor.uniproc_executor.UniProcExecutor"
    assert one in command(tmp_path, {})
    one_device = on_accelerators(tensor_parallel_size=1, data_parallel_size=1)
    assert "--distributed" not in command_of(tmp_path, one_device)
    chosen = command(tmp_path, {"distributed_executor_backend": "mp"})
    assert chosen.count("--distributed-executor-backend") == 1
    assert "--distributed-executor-backend mp" in chosen
    assert "--distributed" not in command(tmp_path, {"distributed_executor_backend": None})


@pytest.mark.parametrize("split", ["tensor_parallel_size", "--prefill-context-parallel-size"])
def test_an_engine_argument_that_asks_for_workers_keeps_vllms_own_executor(
    tmp_path: Path, split: str
) -> None:
    assert "--distributed-executor-backend" not in command(tmp_path, {split: 2})
    assert "--distributed-executor-backend" in command(tmp_path, {split: 1})


def test_an_engine_of_several_workers_keeps_vllms_own_executor(tmp_path: Path) -> None:
    file = tmp_path / "replica.json"
    file.write_text(
        json.dumps(document(engine={**document()["engine"], "tensor_parallel_size": 2}))
    )
    words = engine_command(load_document(file), settings(), PROGRAMS)
    assert "--distributed-executor-backend" not in words


def test_the_engines_environment_stays_on_this_machine_and_off_core_zero(tmp_path: Path) -> None:
    file = tmp_path / "replica.json"
    file.write_text(json.dumps(document()))
    inherited = {"VLLM_CPU_KVCACHE_SPACE": "40", "HOME": "/home"}
    environment = engine_environment(load_document(file), settings(), inherited, Path("/t"))
    assert "VLLM_CPU_KVCACHE_SPACE" not in environment
    assert (
        environment.items()
        >= {
            "HOME": "/home",
            "TMPDIR": "/t",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CACHE_ROOT": "/runtime/vllm",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_MAX_N_SEQUENCES": str(MOST_CHOICES),
            "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3700",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "passive",
            "TORCHDYNAMO_DISABLE": "1",
        }.items()
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SLIPWAY_SCRATCH", "", "SLIPWAY_SCRATCH is not set"),
        ("SLIPWAY_PORT_GRPC", "http", "SLIPWAY_PORT_GRPC=http is not a port"),
        ("SLIPWAY_PORT_GRPC", "70000", "SLIPWAY_PORT_GRPC=70000 is not a port"),
    ],
)
def test_a_wrong_environment_is_refused_by_name(variable: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings(**{variable: value})


def test_the_launcher_ends_with_2_for_wrong_input_without_a_traceback(short_folder: Path) -> None:
    replica = ReplicaProcess(short_folder, "127.92.0.4")
    replica.document["engine"]["engine_args"] = {"port": 1}
    assert replica.start().process.wait(REPLICA_HANG_S) == 2
    assert "engine_args.port" in replica.events()[-1]["message"]
    assert (short_folder / "stderr").read_text() == ""


def test_a_scratch_folder_too_long_for_sockets_is_refused(short_folder: Path) -> None:
    replica = ReplicaProcess(short_folder, "127.92.0.4")
    replica.environment["SLIPWAY_SCRATCH"] = str(short_folder / ("x" * 60))
    assert replica.start().process.wait(REPLICA_HANG_S) == 2
    assert "SLIPWAY_SCRATCH is too long" in replica.events()[-1]["message"]


def schema(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return content


def image(folder: Path, vllm: str) -> Path:
    """A folder like the stock image's, whose Python has this version of vLLM."""
    (folder / "opt/bin").mkdir(parents=True)
    (folder / "opt/bin/tritonserver").touch()
    (folder / f"python/vllm-{vllm}.dist-info").mkdir(parents=True)
    metadata = folder / f"python/vllm-{vllm}.dist-info/METADATA"
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm}\n")
    return folder


@pytest.mark.parametrize("has", ["0.32.0", "0.32.0+cu130"])
def test_in_a_container_triton_and_vllm_are_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: str
) -> None:
    folder = image(tmp_path, has)
    monkeypatch.syspath_prepend(str(folder / "python"))
    programs = of_this_image("0.32.0", folder / "opt")
    assert str(programs.engine_python) == str(programs.triton.python) == sys.executable
    assert {file.parent for file in programs.triton.python_backend} == {
        folder / "opt/backends/python"
    }


def test_an_image_with_another_vllm_than_planned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = image(tmp_path, "0.31.2")
    monkeypatch.syspath_prepend(str(folder / "python"))
    with pytest.raises(InputError, match=r"planned with vLLM 0\.32\.0, but the image has 0\.31\.2"):
        of_this_image("0.32.0", folder / "opt")


def test_an_image_without_triton_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the image has no .*/bin/tritonserver"):
        of_this_image("0.32.0", tmp_path)


@pytest.mark.parametrize("missing", FOLDERS)
def test_on_the_host_both_environments_must_be_named(missing: str) -> None:
    with pytest.raises(InputError, match=f"{missing} is not set"):
        of_environments({**FOLDERS, missing: ""})
