"""What no single output shows: tools that are missing, hosts among each other, who is to blame."""

from __future__ import annotations

from typing import Any

from fabric.document import read_check
from fabric.findings import Finding, Verdict, worst
from fabric.verdicts import judge, verdicts_of_hosts
from recordings import FOLDER

from catalog import thresholds

LSMOD = "Module Size Used by\nnvidia 54030336 12\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.91.07  Wed Oct  1 2026\n"


def judged(kind: str = "infiniband", **document: Any) -> list[Finding]:
    planned = {"kind": kind, "devices": ["mlx5_0", "mlx5_1"], "rate_gbit_per_s": 400}
    planned |= document.pop("planned", {})
    check = read_check(
        {
            "schema_version": 1,
            "planned": planned,
            "thresholds": thresholds(kind),
            "hosts": document.pop("hosts", []),
            "pairs": document.pop("pairs", []),
        }
    )
    return judge(check.planned, check.thresholds, check.hosts, check.pairs)


def recorded(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text()


def outputs(**texts: str) -> list[dict[str, str]]:
    return [{"tool": tool, "text": text} for tool, text in texts.items()]


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def test_every_tool_that_did_not_run_is_a_gap_with_its_package() -> None:
    gaps = of(judged(hosts=[{"name": "one", "outputs": []}]), "tools")
    assert [each.reason for each in gaps] == [
        f"there is no output of {tool}" for tool in ("ibstat", "ibv_devinfo", "lspci", "ulimit")
    ]
    assert all(each.verdict is Verdict.GAP for each in gaps)
    assert gaps[0].fix == "install ibstat (infiniband-diags)"


def test_every_rail_that_was_not_measured_is_a_gap() -> None:
    bandwidth = {"tool": "ib_write_bw", "device": "mlx5_0", "text": recorded("write_bw_all_sizes")}
    pair = {"host": "one", "peer": "two", "outputs": [bandwidth]}
    gaps = of(judged(pairs=[pair]), "tools")
    assert {each.reason for each in gaps} == {
        "there is no output of ib_write_bw for mlx5_1",
        "there is no output of ib_write_lat for mlx5_0",
        "there is no output of ib_write_lat for mlx5_1",
    }


def test_nothing_checked_is_a_gap_and_no_pass() -> None:
    assert worst([]) is Verdict.GAP


def test_a_tool_that_ends_with_an_error_is_a_gap_on_a_host_and_a_failure_between_two() -> None:
    ibstat = {"tool": "ibstat", "text": recorded("ibstat_two_rails_ndr"), "exit_code": 1}
    (alone,) = of(judged(hosts=[{"name": "one", "outputs": [ibstat]}]), "ibstat")
    assert (alone.verdict, "ended with 1" in alone.reason) == (Verdict.GAP, True)
    text = recorded("write_bw_all_sizes")
    measured = {"tool": "ib_write_bw", "text": text, "device": "mlx5_0", "exit_code": 124}
    pair = {"host": "one", "peer": "two", "outputs": [measured]}
    (between,) = of(judged(pairs=[pair]), "bandwidth")
    assert (between.verdict, between.peer) == (Verdict.FAIL, "two")


def test_without_a_majority_the_firmware_of_both_hosts_is_named() -> None:
    new = recorded("ibstat_two_rails_ndr")
    hosts = [
        {"name": "one", "outputs": outputs(ibstat=new)},
        {"name": "two", "outputs": outputs(ibstat=new.replace("28.43.2026", "28.39.1002"))},
    ]
    findings = of(judged(hosts=hosts), "firmware")
    assert {each.host for each in findings if each.verdict is Verdict.FAIL} == {"one", "two"}
    assert all("28.39.1002" in each.reason and "28.43.2026" in each.reason for each in findings)


def test_firmware_of_a_device_that_is_not_planned_does_not_count() -> None:
    storage = recorded("ibstat_two_rails_ndr").replace("28.43.2026", "28.39.1002", 1)
    hosts = [{"name": "one", "outputs": outputs(ibstat=storage)}]
    findings = of(judged(hosts=hosts, planned={"devices": ["mlx5_1"]}), "firmware")
    assert [each.verdict for each in findings] == [Verdict.PASS]


def test_a_port_of_the_other_link_layer_fails() -> None:
    hosts = [{"name": "one", "outputs": outputs(ibstat=recorded("ibstat_two_rails_ndr"))}]
    (first, second) = of(judged("roce", hosts=hosts), "link")
    assert first.verdict is second.verdict is Verdict.FAIL
    assert first.reason == "mlx5_0: its link layer is InfiniBand, planned is Ethernet"


def test_peer_memory_is_a_module_or_dma_buf_of_open_modules_on_a_new_kernel() -> None:
    def verdicts(**texts: str) -> list[Verdict]:
        hosts = [{"name": "one", "outputs": outputs(lsmod=LSMOD, **texts)}]
        found = judged(hosts=hosts, planned={"gpudirect": True})
        return [each.verdict for each in of(found, "peer_memory")]

    assert verdicts(nvidia_version=OPEN, uname="6.8.0-90-generic\n") == [Verdict.PASS]
    assert verdicts(nvidia_version=OPEN, uname="5.4.0-100-generic\n") == [Verdict.FAIL]
    assert verdicts(nvidia_version=CLOSED, uname="6.8.0-90-generic\n") == [Verdict.FAIL]
    assert verdicts() == [Verdict.FAIL]


def between(host: str, peer: str, verdict: Verdict) -> Finding:
    return Finding(host, "bandwidth", verdict, "", peer=peer, subject="mlx5_0")


def test_a_failure_is_that_of_the_host_that_passes_with_nobody() -> None:
    good, bad = Verdict.PASS, Verdict.FAIL
    findings = [between("a", "b", bad), between("a", "c", bad), between("b", "c", good)]
    assert verdicts_of_hosts(findings) == {"a": bad, "b": good, "c": good}


def test_a_failure_of_two_that_pass_with_others_counts_against_both() -> None:
    good, bad = Verdict.PASS, Verdict.FAIL
    findings = [between("a", "b", bad), between("a", "c", good), between("b", "d", good)]
    assert verdicts_of_hosts(findings) == {"a": bad, "b": bad, "c": good, "d": good}


def test_a_failure_of_two_that_met_nobody_else_counts_against_both() -> None:
    found = verdicts_of_hosts([between("a", "b", Verdict.FAIL)])
    assert found == {"a": Verdict.FAIL, "b": Verdict.FAIL}


def test_a_second_port_without_a_cable_is_no_failure_of_the_adapter() -> None:
    text = recorded("ibstat_two_rails_ndr")
    layer = "Link layer: InfiniBand\n"
    down = f"\tPort 2:\n\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tRate: 10\n\t\t{layer}"
    both = text.replace(layer, layer + down)
    (link,) = of(judged(**one_adapter(both)), "link")
    assert link.verdict is Verdict.PASS
    neither = both.replace("Active", "Down").replace("LinkUp", "Polling")
    (link,) = of(judged(**one_adapter(neither)), "link")
    assert (link.verdict, link.reason) == (Verdict.FAIL, "mlx5_0: Down, Polling")


def one_adapter(ibstat: str) -> dict[str, Any]:
    hosts = [{"name": "one", "outputs": outputs(ibstat=ibstat)}]
    return {"planned": {"devices": ["mlx5_0"]}, "hosts": hosts}
