"""Who takes members of groups, by what the hosts of a pool report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from admission.page import exposition
from admission.turns import RETRY_S, Standing, next_pair
from admission.verdicts import (
    Admission,
    admissions,
    findings_of,
    metadata_of,
    read_admission,
)
from fabric.pool import Pool, read_pools
from jsonschema import Draft202012Validator
from program.errors import InputError
from recordings import FOLDER
from reports import ABSENT, DOWN, UP, pair, pool, report

from catalog import ROOT, thresholds

RATED = {"kind": "tcp", "interface": "eth0", "rate_gbit_per_s": 10.0}
ETHTOOL = {
    "tool": "ethtool",
    "text": "Settings for eth0:\n\tSpeed: 10000Mb/s\n\tLink detected: yes\n",
    "exit_code": 0,
}


def judged(
    of: Pool,
    reports: Mapping[str, Any],
    before: Mapping[str, Admission | None] | None = None,
    waiting: Iterable[str] = (),
) -> dict[str, Admission]:
    return admissions(of, reports, findings_of(of, reports), before or {}, waiting)


def rated(*pairs: Any, **changes: Any) -> dict[str, Any]:
    made = report(pairs=pairs, **changes)
    return {**made, "outputs": [*made["outputs"], ETHTOOL]}


def test_a_host_whose_own_checks_pass_takes_members_before_anyone_has_measured() -> None:
    admission = judged(pool(), {"one": report()})["one"]
    assert admission == Admission("passed", admitted=True, key="a")


def test_a_report_follows_its_schema() -> None:
    schema = json.loads((ROOT / "schemas/fabric-host.schema.json").read_text())
    Draft202012Validator(schema).validate(report(pairs=(pair("two", 9.0),)))


@pytest.mark.parametrize(
    ("link", "said"), [(DOWN, "eth0: is down"), (ABSENT, 'Device "eth9" does not exist')]
)
def test_a_link_that_is_down_or_missing_keeps_members_off_and_is_named(
    link: str, said: str
) -> None:
    admission = judged(pool(), {"one": report(link=link), "two": report()})
    assert admission["two"].admitted
    one = admission["one"]
    assert (one.verdict, one.admitted, one.check) == ("failed", False, "link")
    assert said in one.reason
    assert one.fix


def test_a_host_without_an_address_on_the_fabric_takes_no_members() -> None:
    found = judged(pool(), {"one": report(address=""), "two": report()})
    assert found["two"].admitted
    one = found["one"]
    assert (one.verdict, one.admitted, one.check) == ("failed", False, "link")
    assert one.reason == "eth0: has no IPv4 address"
    assert one.fix


def test_a_host_with_another_mtu_than_most_is_named_where_none_is_planned() -> None:
    reports = {"one": report(), "two": report(), "three": report(link=UP.replace("1500", "9000"))}
    found = judged(pool(), reports)
    assert {host: each.admitted for host, each in found.items()} == {
        "one": True,
        "two": True,
        "three": False,
    }
    assert (found["three"].check, found["three"].figure) == ("mtu", 9000)
    assert found["three"].reason == "eth0: MTU 9000, others in the pool have 1500"
    # Of two nobody can tell which is right; with a planned one the plan does.
    del reports["two"]
    assert not any(each.admitted for each in judged(pool(), reports).values())
    of = pool(planned={"kind": "tcp", "interface_mtu_bytes": 9000})
    assert {host for host, each in judged(of, reports).items() if each.admitted} == {"three"}


def test_a_missing_tool_is_a_gap_that_keeps_members_off_only_where_the_pool_says_so() -> None:
    planned = {"planned": RATED}  # asks for ethtool, which the host has not
    lenient = judged(pool(**planned), {"one": report()})["one"]
    assert (lenient.verdict, lenient.admitted) == ("gap", True)
    assert lenient.reason == "there is no output of ethtool"
    strict = judged(pool(**planned, gaps_admit=False), {"one": report()})["one"]
    assert (strict.verdict, strict.admitted) == ("gap", False)
    assert strict.fix == "install ethtool (ethtool)"


def test_a_host_without_any_adapter_takes_no_members_where_rdma_is_planned() -> None:
    rdma = pool(
        planned={"kind": "infiniband"},
        thresholds=thresholds("infiniband"),
        gaps_admit=False,
        measures=True,
    )
    admission = judged(rdma, {"one": report()})["one"]
    assert not admission.admitted
    assert admission.verdict == "gap"  # no tool of it is installed either


def test_without_planned_adapters_one_that_most_hosts_use_is_missed_where_it_is_down() -> None:
    rdma = pool(planned={"kind": "infiniband"}, thresholds=thresholds("infiniband"))
    text = (FOLDER / "ibstat_two_rails_ndr.txt").read_text()
    one_down = text[::-1].replace("evitcA", "nwoD", 1)[::-1]
    first = report(devices=["mlx5_0"], outputs=[ibstat(one_down)])
    other = report(devices=["mlx5_0", "mlx5_1"], outputs=[ibstat(text)])
    found = judged(rdma, {"one": first, "two": other, "three": other})
    assert found["one"].reason == "mlx5_1: Down, LinkUp"
    assert {host: each.verdict for host, each in found.items()} == {
        "one": "failed",
        "two": "gap",  # other tools did not run
        "three": "gap",
    }


def ibstat(text: str) -> dict[str, Any]:
    return {"tool": "ibstat", "text": text, "exit_code": 0}


def test_both_hosts_of_a_slow_link_fail_until_a_third_one_tells_which_it_is() -> None:
    of = pool(planned=RATED)
    two_hosts = {"one": rated(pair("two", 2.0)), "two": rated()}
    found = judged(of, two_hosts)
    assert {host: each.admitted for host, each in found.items()} == {"one": False, "two": False}
    one = found["one"]
    assert (one.figure, one.threshold, one.unit, one.peer) == (2.0, 8.0, "Gbit/s", "two")
    assert one.reason == "eth0: TCP 2 Gbit/s, at least 8"
    assert found["two"].peer == "one"

    third = {**two_hosts, "three": rated(pair("one", 9.0, minute=2))}
    found = judged(of, third, before=found)
    assert {host: each.admitted for host, each in found.items()} == {
        "one": True,
        "two": False,
        "three": True,
    }


def test_a_failure_between_two_outlives_its_figures_and_ends_with_a_pass() -> None:
    of = pool(planned=RATED)
    failed = judged(of, {"one": rated(pair("two", 2.0)), "two": rated()})
    # The host forgets what it measured when its settings change.
    forgotten = judged(of, {"one": rated(request="r1"), "two": rated()}, before=failed)
    assert {host: each.verdict for host, each in forgotten.items()} == {
        "one": "failed",
        "two": "failed",
    }
    assert forgotten["one"].reason == failed["one"].reason
    assert forgotten["one"].request == "r1"
    again = {"one": rated(pair("two", 9.0, minute=5)), "two": rated()}
    passed = judged(of, again, before=forgotten)
    assert all(each.admitted for each in passed.values())


def test_a_failure_that_both_hosts_have_left_behind_is_forgotten() -> None:
    of = pool(planned=RATED)
    reports = {
        "one": rated(pair("two", 2.0, minute=1), pair("three", 9.0, minute=2)),
        "two": rated(pair("three", 9.0, minute=3)),
        "three": rated(),
    }
    assert all(each.admitted for each in judged(of, reports).values())


def test_a_host_that_is_about_to_measure_waits_for_it() -> None:
    of = pool(planned=RATED, measures=True)
    reports = {"one": rated(), "two": rated(), "three": rated()}
    found = judged(of, reports, waiting=("one", "two"))
    assert {host: each.admitted for host, each in found.items()} == {
        "one": False,
        "two": False,
        "three": True,
    }
    assert (found["one"].verdict, found["one"].reason) == (
        "gap",
        "not measured with another host yet",
    )


def test_over_rdma_nobody_takes_members_before_it_has_measured() -> None:
    of = pool(planned=RATED, measures=True, gaps_admit=False)
    alone = judged(of, {"one": rated()})["one"]
    assert (alone.verdict, alone.admitted) == ("gap", False)
    both = judged(of, {"one": rated(pair("two", 9.0)), "two": rated()})
    assert all(each.admitted for each in both.values())


def test_a_host_that_passed_stays_measured_until_its_settings_change() -> None:
    of = pool(planned=RATED, measures=True, gaps_admit=False)
    before = judged(of, {"one": rated(pair("two", 9.0)), "two": rated()})
    # The check was replaced, and with it went what it had measured.
    found = judged(of, {"one": rated(), "two": rated()}, before=before)
    assert found == before
    found = judged(of, {"one": rated(key="b"), "two": rated()}, before=found)
    assert {host: each.admitted for host, each in found.items()} == {"one": False, "two": True}
    assert found["one"].reason == "not measured with another host yet"


@pytest.mark.parametrize("changed", ["one", "two"])
def test_a_host_whose_settings_changed_measures_again_though_it_only_listened(changed: str) -> None:
    of = pool(planned=RATED, measures=True, gaps_admit=False)
    reports = {"one": rated(pair("two", 9.0)), "two": rated()}
    before = judged(of, reports)
    pairs = [] if changed == "one" else reports["one"]["pairs"]  # the one that measured forgets
    reports["one"]["pairs"] = pairs
    reports[changed]["key"] = "b"
    found = judged(of, reports, before=before)
    assert [host for host, each in found.items() if not each.admitted] == [changed]


def test_a_host_that_failed_by_itself_has_to_measure_again() -> None:
    of = pool(planned=RATED, measures=True, gaps_admit=False)
    down = {"one": rated(link=DOWN), "two": rated()}
    before = judged(of, {"one": rated(pair("two", 9.0)), "two": rated()})
    failed = judged(of, down, before=before)
    found = judged(of, {"one": rated(), "two": rated()}, before=failed)
    assert {host: each.admitted for host, each in found.items()} == {"one": False, "two": True}


def test_what_nomad_keeps_is_what_was_judged() -> None:
    of = pool(planned=RATED)
    for admission in judged(of, {"one": rated(pair("two", 2.0)), "two": rated()}).values():
        assert read_admission(metadata_of(admission)) == admission
    assert read_admission({}) is None
    assert read_admission({"fabric": "passed", "fabric_members": "yes"}) is None


def test_figures_name_the_host_and_escape_what_a_tool_said() -> None:
    admission = Admission("failed", admitted=False, reason='Device "eth9"\nis away', fix="plug")
    assert exposition({("cpu", "one"): admission}).splitlines()[-1] == (
        'slipway_fabric_admitted{host="one",pool="cpu",verdict="failed",'
        'reason="Device \\"eth9\\" is away",fix="plug"} 0'
    )


def test_a_document_without_a_pools_job_is_refused() -> None:
    with pytest.raises(InputError, match="fabric-pools"):
        read_pools({"pools": {"cpu": {"planned": {}}}})


IDLE = Standing(idle=True, measured_s=None)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ({}, None),
        ({"one": IDLE}, None),
        ({"one": IDLE, "two": Standing(idle=False, measured_s=None)}, None),
        ({"one": IDLE, "two": IDLE}, ("one", "two")),
        ({"one": Standing(idle=True, measured_s=5), "two": IDLE}, ("two", "one")),
        ({"one": Standing(True, 5), "two": Standing(True, 6)}, None),
        # One that failed tries another host than the last time, and not at once.
        (
            {
                "one": Standing(True, 0, failed=True, peer="two"),
                "two": Standing(True, 0),
                "three": Standing(True, 1),
            },
            ("one", "three"),
        ),
        ({"one": Standing(True, RETRY_S, failed=True), "two": Standing(True, 0)}, None),
        # One that was asked waits for those that were not; one that did not answer is left out.
        ({"one": Standing(True, None, asked_s=9), "two": IDLE, "three": IDLE}, ("three", "two")),
        ({"one": Standing(True, None, silent_s=9), "two": IDLE, "three": IDLE}, ("three", "two")),
        ({"one": Standing(True, None, silent_s=0), "two": IDLE}, ("one", "two")),
    ],
)
def test_hosts_that_hold_nothing_measure_in_turns(
    hosts: Mapping[str, Standing], expected: tuple[str, str] | None
) -> None:
    assert next_pair(hosts, RETRY_S + 1) == expected


def test_every_host_of_a_fresh_pool_has_its_turn() -> None:
    hosts = {f"host-{k}": IDLE for k in range(5)}
    for moment in range(10):
        turn = next_pair(hosts, moment)
        if turn is None:
            break
        for each in turn:
            hosts[each] = Standing(idle=True, measured_s=moment)
    assert all(each.measured_s is not None for each in hosts.values())
