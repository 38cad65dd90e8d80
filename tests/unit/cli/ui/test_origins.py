from __future__ import annotations

from cli.ui.origins import origins


def test_no_name_of_a_run_is_one_of_another_run_on_the_same_port() -> None:
    first, second = origins(8080), origins(8080)
    assert len(first) == len(second) == 4
    assert not first.keys() & second.keys()


def test_every_name_leads_browsers_to_this_machine() -> None:
    assert all(host.endswith(".localhost:8080") for host in origins(8080))


def test_browsers_leave_the_port_of_http_out() -> None:
    for host, origin in origins(80).items():
        assert host.endswith(".localhost")
        assert origin.url == f"http://{host}"
