"""Users' mistakes in plans: traces, models, prices, limits, calibrations, options.

Each mistake is refused with its place, its value and a fix: exit code 2, no traceback. One goes
through the real command; the others run in this process, through the same code.
"""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.app import app
from tests.unit.cli.checkouts import Edit, files, slipway

DEV_MODEL = "models/smollm2.yaml"
DEV_LOAD = "requests_per_s: 2, input_tokens: 200, output_tokens: 100"
TRACE = """\
{"timestamp": 0, "input_length": 40, "output_length": 60}
{oops
{"timestamp": 800, "input_length": 40, "output_length": 60}
{"timestamp": 900, "input_length": -4, "output_length": 60}
"""
STEP_TIMES = ("--profile", "cpu-smollm2")

# Facts of an unknown model, by their names in its config.json.
FACTS = ("num_hidden_layers", "num_key_value_heads", "max_position_embeddings", "hub: [my-org/")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def assert_refused(result: Result, *said: str) -> None:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    missing = [text for text in said if text not in result.stderr]
    assert missing == [], result.stderr


def assert_refuses(checkout: Path, arguments: tuple[str, ...], *said: str) -> None:
    before = files(checkout)
    assert_refused(run(*arguments), *said, "fix: ")
    assert files(checkout) == before


def test_the_broken_lines_of_a_models_trace_are_named_and_counted(
    whole_checkout: Path, edit: Edit
) -> None:
    """By the real command."""
    (whole_checkout / "trace.jsonl").write_text(TRACE)
    edit(DEV_MODEL, DEV_LOAD, "trace: trace.jsonl")
    before = files(whole_checkout)
    done = slipway(whole_checkout, "plan")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    said = ("trace.jsonl:2: ", "trace.jsonl:4: ", "2 of 4 lines are broken", "fix: ")
    assert [text for text in said if text not in done.stderr] == [], done.stderr
    assert "Traceback" not in done.stderr
    assert files(whole_checkout) == before


def test_the_broken_lines_of_a_replayed_trace_are_named_and_counted(
    copied: Path, trace: Path
) -> None:
    said = (f"{trace}:2: not JSON", f"{trace}:4: input_length: -4", "2 of 4 lines are broken")
    assert_refuses(copied, ("replay", str(trace), *STEP_TIMES), *said, "--skip-broken")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("fit", "my-model-8b", "--gpu", "L4"), 'catalog/models.yaml has no model "my-model'),
        (
            ("plan", "-s", "aws", "--what-if", "models.phi-4.engine.architecture=my-model-8b"),
            'engine.architecture: is not in catalog/models.yaml (found "my-model-8b")',
        ),
    ],
    ids=["fit", "plan"],
)
def test_a_model_that_the_catalog_lacks_is_refused_with_the_facts_to_add(
    copied: Path, arguments: tuple[str, ...], place: str
) -> None:
    assert_refuses(copied, arguments, place, *FACTS)


def test_a_calibration_that_is_no_yaml_is_refused_with_its_line(copied: Path) -> None:
    (copied / "calibration").mkdir()
    (copied / "calibration" / "aws.yaml").write_text("schema_version: 1\nrows: [{]\n")
    assert_refuses(copied, ("plan", "-s", "aws"), "calibration/aws.yaml:2: ")


def test_a_replay_without_the_broken_lines_has_them_in_its_json(trace: Path) -> None:
    result = run("replay", str(trace), *STEP_TIMES, "--skip-broken", "--json")
    skipped = json.loads(result.stdout)["trace"]["skipped"]
    assert [line["line"] for line in skipped] == [2, 4]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--speed", "0"), ["--speed: must be a number above 0 (found 0)"]),
        (("--speed", "-2"), ["--speed: must be a number above 0 (found -2)"]),
        (("--speed", "nan"), ["--speed: must be a number above 0 (found nan)"]),
        (("--speed", "inf"), ["--speed: must be a number above 0 (found inf)"]),
        (("--profile", "cpu-smol"), ["--profile: ", '"cpu-smol"', 'did you mean "cpu-smollm2"?']),
        (
            ("--png", "/nowhere/a.png"),
            ["--png: /nowhere/a.png: the folder /nowhere does not exist"],
        ),
        (("--png", "."), ["--png: . is not the name of a PNG file"]),
        (("--png", "a.svg"), ["--png: a.svg is not the name of a PNG file"]),
        (("--what-if", "models.smollm2.replicas.max=lots"), ["replicas.max", '"lots"']),
    ],
    ids=" ".join,
)
def test_an_option_of_a_replay_is_refused_before_the_trace_is_read(
    trace: Path, option: tuple[str, str], said: list[str]
) -> None:
    result = run("replay", str(trace), *STEP_TIMES, *option)
    assert_refused(result, *said, "fix: ")
    assert "not JSON" not in result.stderr


def test_a_missing_trace_is_not_called_broken(tmp_path: Path) -> None:
    result = run("replay", str(tmp_path / "none.jsonl"), *STEP_TIMES)
    assert_refused(result, f"{tmp_path / 'none.jsonl'} does not exist", "docs/replay.md")
    assert "repair" not in result.stderr


def test_an_old_price_is_warned_of_and_planned_with(copied: Path) -> None:
    instances = copied / "catalog" / "instances.yaml"
    today = datetime.datetime.now(tz=datetime.UTC).date()
    old = today - datetime.timedelta(days=100)
    others, machine, entry = re.sub(
        r"date: \S+", f"date: {today}", instances.read_text()
    ).partition("\ng6.xlarge:")
    entry = entry.replace(f"price_date: {today}", f"price_date: {old}", 1)
    instances.write_text(others + machine + entry)
    services = copied / "catalog" / "services.yaml"
    services.write_text(re.sub(r"date: \S+", f"date: {today}", services.read_text()))

    warning = f"the price of g6.xlarge is 100 days old ({old})"
    table, document = run("plan", "-s", "aws"), run("plan", "-s", "aws", "--json")
    assert (table.exit_code, document.exit_code) == (0, 0)
    assert f"! {warning}" in table.stdout
    (told,) = [text for text in json.loads(document.stdout)["warnings"] if "days old" in text]
    assert told.startswith(warning)
    assert "catalog/instances.yaml" in told


# A mistake in an option is not blamed on a file.
STACK = "--what-if: slipway:"
MODEL = "--what-if: models.phi-4."
# (--what-if on aws, what the message must contain)
LIMITS = [
    ("models.phi-4.replicas={min: 5, max: 2}", [STACK, "phi-4.replicas: min is", "raise max to 5"]),
    ("models.phi-4.replicas.min=0", [STACK, "phi-4.replicas.min", "(found 0)", "use 1 or more"]),
    ("models.phi-4.replicas.max=-1", [STACK, "phi-4.replicas.max", "(found -1)"]),
    ("models.phi-4.engine.max_model_len=99999", [MODEL, "max_model_len", "99999", "use 16384 or"]),
    (
        "models.phi-4.engine.max_model_len=100",
        ["models/phi-4.yaml:", "load", "the engine takes 100", "or shorten"],
    ),
    ("models.phi-4.engine.max_num_seqs=0", [MODEL, "engine.max_num_seqs", "(found 0)"]),
    ("models.phi-4.engine.max_num_seqs=.nan", [MODEL, "engine.max_num_seqs", "(found NaN)"]),
    ("models.phi-4.parallel.tensor=0", [MODEL, "parallel.tensor", "(found 0)", "use 1 or more"]),
    ("models.phi-4.parallel.tensor=3", ["cannot be divided by 3", "parallel"]),
    ("models.phi-4.parallel.pipeline=99", ["40 layers are too few for 99", "parallel"]),
    ("models.phi-4.load.requests_per_s=0", [MODEL, "load.requests_per_s", "(found 0)"]),
    ("models.phi-4.load.requests_per_s=-2", [MODEL, "load.requests_per_s", "(found -2)"]),
    ("models.phi-4.load.requests_per_s=.nan", [MODEL, "load.requests_per_s", "(found NaN)"]),
    ("models.phi-4.load.input_tokens={p50: 9, p95: 2}", [MODEL, "p50 is greater", "swap"]),
    ("models.phi-4.load.trace=a.jsonl", [MODEL, "load", "may contradict it", "keep `trace`, or"]),
    ("models.phi-4.load.ramp={to_requests_per_s: 1, minutes: 3}", [MODEL, "load", "more than 2"]),
    ("models.phi-4.slo.ttft_p95_ms=0", [MODEL, "slo.ttft_p95_ms", "(found 0)"]),
    ("models.phi-4.slo.tpot_p95_ms=-5", [MODEL, "slo.tpot_p95_ms", "(found -5)"]),
    ("models.phi-4.slo.ttft_p95_ms=.nan", [MODEL, "slo.ttft_p95_ms", "(found NaN)"]),
    (
        "budget={usd_per_hour: 9, usd_per_hour_at_most: 5}",
        [STACK, "slipway:budget: usd_per_hour is greater", "raise usd_per_hour_at_most to 9"],
    ),
    ("pools.l4.nodes={min: 5, max: 2}", [STACK, "pools.l4.nodes: min is", "lower min to 2"]),
    (
        "pools.h100={kind: aws, instance: p5.48xlarge, nodes: {min: 2, max: 3}, quota: 1}",
        [STACK, "h100.quota", "(found 1)", "nodes.min, which is 2"],
    ),
    ("pools.h100.nodes.max=10000000", [STACK, "h100.nodes.max", "at most 10000 (found 10000000)"]),
    ("models.phi-4.replicas.max=100000000000000000000", [STACK, "replicas.max", "at most 1000 "]),
    (
        "models.phi-4.load.output_tokens={p50: 9, p95: 1000000000000000000000000}",
        [MODEL, "output_tokens.p95", "at most 10000000 "],
    ),
    (
        "models.phi-4.load.requests_per_s=.inf",
        [MODEL, "load.requests_per_s", "at most 1000000 (found Infinity)"],
    ),
    (
        "models.phi-4.parallel={pipeline: 40, data: 1024}",
        [MODEL, "parallel", "is 40960 devices, but a replica has at most 1024"],
    ),
    (
        "models.phi-4.engine.engine_args={max_num_batched_tokens: 40}",
        [MODEL, "max_num_batched_tokens", "(found 40)", "use 48 or more"],
    ),
    (
        "models.phi-4.engine.engine_args={since: 2026-11-21}",
        [MODEL, "engine_args", "dates in quotes"],
    ),
    (
        "pools.h100.usd_per_hour=.inf",
        [STACK, "pools.h100.usd_per_hour", "at most 1000000 (found Infinity)"],
    ),
    ("pools.h100.usd_per_hour=-3", [STACK, "pools.h100.usd_per_hour", "(found -3)"]),
    ("pools.h100.usd_per_hour=.nan", [STACK, "pools.h100.usd_per_hour", "(found NaN)"]),
]
# Unknown names, and values of the wrong kind
UNKNOWN = [
    ("pools.l4.instance=g6.huge", [STACK, "pools.l4.instance", '"g6.huge"', '"g6.xlarge"?']),
    ("models.phi-4.engine.quantization=fp9", [MODEL, "engine.quantization", '"fp9"', '"fp8"?']),
    ("models.phi-4.engine.quantisation=fp8", [MODEL, "engine.quantisation", '"quantization"?']),
    (
        "models.phi-4.engine={kind: vllm, architecture: gpt-oss-20b, quantization: bf16}",
        [MODEL, "engine.quantization", "published in mxfp4", "use mxfp4, or leave the key out"],
    ),
    (
        "target=aws2",
        ["the configuration has a mistake", STACK, '"aws2"', "'dev', 'aws' or 'metal'"],
    ),
    (
        "pools.l5.nodes.max=4",
        ["--what-if: pools.l5: this environment has no pool", "h100, l4, l40s"],
    ),
    ("models.phi-5.replicas.max=4", ["--what-if: models.phi-5: this environment", '"phi-4"?']),
    ("models.phi-4.replica.max=4", ["phi-4.replica: unknown key", 'did you mean "replicas"?']),
    ("models.phi-4.load={trace: none.jsonl}", [MODEL, "load.trace: cannot be read: No such file"]),
    ("pools.l4.nodes=0", ["--what-if: slipway:pools.l4.nodes: must be at least 1", "1 or more"]),
    ("models.phi-5.slo.ttft_p95_ms=5", ["--what-if: models.phi-5", 'did you mean "phi-4"?']),
    ("pool.l4.nodes.max=4", [STACK, "slipway:pool: unknown key", 'did you mean "pools"?']),
    # Not an emoji, which ":a:" is for the library that prints it.
    ("a.b=3", [STACK, " slipway:a: unknown key", "use one of 17, such as"]),
    ("models.phi-4.replicas.max=lots", [STACK, "phi-4.replicas.max", '"lots"', "a whole number"]),
    ("models.phi-4.replicas.max=2.5", [STACK, "phi-4.replicas.max", "2.5", "a whole number"]),
    ("models.phi-4.replicas.max={a: 1", ["--what-if", "is not YAML", "replicas.max={a: 1"]),
    ("models.phi-4.slo=fast", [MODEL, "slo: must be a mapping", '"fast"']),
    ("models.phi-4", ["--what-if: must be key=value", '"models.phi-4"', "write e.g."]),
]


@pytest.mark.parametrize(
    ("change", "said"), [pytest.param(*case, id=case[0]) for case in LIMITS + UNKNOWN]
)
def test_a_what_if_that_cannot_be_is_refused(change: str, said: list[str]) -> None:
    assert_refused(run("plan", "-s", "aws", "--what-if", change), *said, "fix: ")


def test_a_pool_of_an_unknown_accelerator_is_refused() -> None:
    result = run("plan", "-s", "metal", "--what-if", "pools.l40s.accelerator=L41S")
    assert_refused(result, "pools.l40s.accelerator", '"L41S"', 'did you mean "L40S" or "L4"?')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--count", "1", "--tp", "2"], ["--count, --tp, --pp: 1 devices", "the product of"]),
        (["--count", "2", "--tp", "2", "--pp", "2"], ["2 devices are not tensor 2 x pipeline 2"]),
        (["--tp", "0"], ["'--tp'", "greater than or equal to 1"]),
        (["--pp", "-1"], ["'--pp'", "greater than or equal to 1"]),
        (["--count", "99999999"], ["'--count'", "less than or equal to 1024"]),
        (["--count", "nan"], ["'--count'", "valid integer"]),
        (["--max-len", "0"], ["'--max-len'", "greater than or equal to 1"]),
        (["--quant", ""], ['--quant: slipway does not know ""', "use one of 12, such as"]),
        (["--gpu", ""], ['catalog/accelerators.yaml does not know ""', "use one of 17, such as"]),
    ],
    ids=" ".join,
)
def test_an_option_of_fit_that_cannot_be_is_refused(options: list[str], said: list[str]) -> None:
    assert_refused(run("fit", "phi-4", "--gpu", "L4", *options), *said)


@pytest.mark.parametrize("option", [["--tp", "3"], ["--pp", "99"], ["--max-len", "99999"]])
def test_a_replica_that_the_model_does_not_allow_is_answered_with_no_and_why(
    option: list[str],
) -> None:
    """A question that was answered: exit code 1."""
    result = run("fit", "phi-4", "--gpu", "L4", "--quant", "awq", *option)
    assert result.exit_code == 1
    assert "phi-4 cannot run" in result.stdout
    assert "why: " in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sweep", "phi-4", "--explain", "phi-4"], "leave out --explain"),
        (["--explain", "phi-4", "--compare"], "leave out --compare"),
        (["--sweep", "phi-4", "--png", "/nowhere/a.png"], "the folder /nowhere does not exist"),
    ],
    ids=" ".join,
)
def test_options_of_a_plan_that_contradict_each_other_are_refused(
    options: list[str], said: str
) -> None:
    assert_refused(run("plan", "-s", "aws", *options), said, "fix: ")


ROW = """\
schema_version: 1
rows:
  - model: phi-4
    accelerator: L4
    precision: {weights: fp8}
    machine: g6.xlarge
    date: 2026-11-21
    versions: {vllm: "0.14.0"}
    serving: {requests_per_s: 1, input_tokens: 9, output_tokens: 9, ttft_ms: 9, tpot_ms: 9}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema_version: 1", "schema_version: 2", ["aws.yaml:1: schema_version", "(found 2)"]),
        ("model: phi-4", "model: phi-5", [":3: rows.0.model", '"phi-5"', 'did you mean "phi-4"']),
        ("2026-11-21", "yesterday", [":7: rows.0.date", '"yesterday"']),
        ("2026-11-21", "2026-13-45", [":7: rows.0.date", '"2026-13-45"', "such as 2026-11-21"]),
        ('"0.14.0"', "0.9", [":8: rows.0.versions.vllm", "(found 0.9)", "put it in quotes"]),
        ("requests_per_s: 1", "requests_per_s: .inf", [":9: ", "(found Infinity)", "1000000"]),
        ("ttft_ms: 9", "ttft: 9", [":9: rows.0.serving.ttft: unknown", 'did you mean "ttft_ms"?']),
        ("requests_per_s: 1", "requests_per_s: .nan", [":9: ", "requests_per_s", "(found NaN)"]),
        ("tpot_ms: 9", "tpot: 9", [":9: rows.0.serving.tpot_ms: is required", "add `tpot_ms:`"]),
        (ROW, "", ["rows: is required", "schema_version: is required"]),
    ],
    ids=lambda part: part if isinstance(part, str) and part != ROW else "",
)
def test_a_broken_calibration_is_refused_with_its_place(
    copied: Path, old: str, new: str, said: list[str]
) -> None:
    path = copied / "calibration" / "aws.yaml"
    path.parent.mkdir()
    path.write_text(ROW.replace(old, new))
    assert_refused(run("plan", "-s", "aws"), "calibration/aws.yaml", *said, "fix: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("pools=5", "slipway:pools: must be a mapping"),
        ("models=true", "slipway:models: must be a mapping"),
        ("models.phi-4.name=foo", "models.phi-4.name: unknown key"),
        ("models.phi-4.load.input_tokens={p50: 1, p95: 10000000}", "the mean is more than"),
    ],
)
def test_a_what_if_of_the_wrong_kind_is_no_traceback(change: str, said: str) -> None:
    assert_refused(run("plan", "-s", "aws", "--what-if", change), said)


def test_a_what_if_is_shown_as_it_was_written() -> None:
    result = run("plan", "-s", "aws", "--what-if", "models.llama-3-1-8b.pools=[h100]")
    assert "what if models.llama-3-1-8b.pools=[h100]" in result.stdout


@pytest.mark.parametrize("name", ["sweep.txt", "."])
def test_a_picture_that_is_no_png_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    assert_refused(
        run("plan", "-s", "aws", "--sweep", "phi-4", "--png", str(tmp_path / name)), "PNG"
    )
