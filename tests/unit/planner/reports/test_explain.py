from __future__ import annotations

import datetime
import re

import pytest

from slipway.plan.fabric import FabricSpec
from slipway.planner.reports.differences import differences
from slipway.planner.reports.explain import Line, explain
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs
from tests.unit.planner.fleets import CATALOG, H100, L4, engine, fleet, model_file


def _lines(
    architecture: str = "qwen2.5-7b", *, today: datetime.date | None = None, **changes: object
) -> dict[str, Line]:
    model = model_file(architecture, engine=engine(architecture)) | changes
    (capacity,) = make_plan(fleet(model), today=today).models
    lines = explain(
        capacity,
        CATALOG.models[architecture],
        CATALOG.accelerators[capacity.accelerator],
        FabricSpec(),
    )
    return {line.quantity: line for line in lines}


def test_every_line_has_a_result_and_a_source() -> None:
    lines = _lines()
    assert all(line.result and line.source for line in lines.values())
    assert {"parameters", "  = KV cache", "TTFT", "replicas needed", "cost"} <= lines.keys()


def test_facts_that_were_read_from_a_file_are_not_called_checked() -> None:
    (capacity,) = make_plan(fleet(model_file("qwen2.5-7b", engine=engine("qwen2.5-7b")))).models
    read = CATALOG.models["qwen2.5-7b"].model_copy(
        update={"is_read": True, "source": "models/chat/config.json"}
    )
    lines = {line.quantity: line.source for line in explain(capacity, read, None, FabricSpec())}
    assert lines["parameters"] == (
        "counted from the model's config.json (read from models/chat/config.json)"
    )
    assert "documented" in _lines()["parameters"].source


def test_a_price_is_explained_with_its_date_and_its_age() -> None:
    today = datetime.date(2027, 1, 1)
    dated = re.search(r"; price of (.*), (\d+) days old$", _lines(today=today)["cost"].source)
    assert dated is not None
    assert (today - datetime.date.fromisoformat(dated[1])).days == int(dated[2])
    assert re.search(r"; price of \d{4}-\d\d-\d\d$", _lines()["cost"].source)


def test_the_kv_arithmetic_is_the_one_of_the_table() -> None:
    line = _lines()["KV of one token on a device"]
    assert line.arithmetic == "2 x 28 layers x 4 KV heads x 128 x 2 B"
    assert line.result == "56.0 KiB"


@pytest.mark.parametrize("architecture", ["qwen2.5-7b", "gemma-3-27b", "deepseek-v3"])
def test_the_arithmetic_of_the_cache_gives_its_results(architecture: str) -> None:
    changes = {"parallel": {"tensor": 8, "pipeline": 2}} if architecture == "deepseek-v3" else {}
    lines = _lines(architecture, **changes)
    tokens = lines["KV tokens of a replica"]
    cache, share, *length = _numbers(tokens.arithmetic.partition(", x ")[0])
    assert _numbers(tokens.result) == [cache * (length[0] if length else 1) // share]
    requests = lines["requests it holds at once"]
    cache, each, most = _numbers(requests.arithmetic.partition(", x ")[0])
    assert _numbers(requests.result) == [min(cache // each, most)]
    (mean,) = (line for name, line in lines.items() if name.startswith("KV of the mean request"))
    assert mean.result in {f"{each / 2**30:.2f} GiB", f"{each / 2**20:.0f} MiB"}


def _numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


def test_latent_attention_is_explained_as_such() -> None:
    lines = _lines(
        "deepseek-v3",
        engine=engine("deepseek-v3", gpu_memory_utilization=0.95),
        parallel={"tensor": 8, "pipeline": 2},
    )
    assert "(512 + 64) x 2 B, on every device" in lines["KV of one token on a device"].arithmetic


def test_a_model_on_processors_is_explained_without_an_accelerator() -> None:
    (capacity,) = make_plan(dev_inputs()).models
    lines = explain(capacity, CATALOG.models["smollm2-135m"], None, FabricSpec())
    assert {line.quantity for line in lines} >= {"parameters", "KV tokens of a replica"}
    assert not any("memory of one" in line.quantity for line in lines)


def test_the_differences_of_a_change_name_what_changed_and_nothing_else() -> None:
    before = make_plan(fleet())
    after = make_plan(fleet(replicas={"min": 1, "max": 9}))
    rows = differences(before, after)
    found = {(row.subject, row.quantity): (row.before, row.after) for row in rows}
    assert found == {
        ("models.chat", "replicas"): ("1 to 8", "1 to 9"),
        ("pools.h100", "accelerators at the maximum"): ("8", "9"),
    }
    assert differences(before, before) == ()


def test_added_and_removed_items_are_differences_too() -> None:
    one = make_plan(fleet(pools={"h100": H100}))
    other = make_plan(fleet(model_file(name="new"), pools={"h100": H100, "l4": L4}))
    rows = differences(one, other)
    assert any(row.subject == "models.chat" and row.after is None for row in rows)
    assert any(row.subject == "models.new" and row.before is None for row in rows)
    assert any(row.subject == "pools.l4" and row.before is None for row in rows)
