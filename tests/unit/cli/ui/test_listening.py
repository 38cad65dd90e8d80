from __future__ import annotations

import socket

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.errors import WRONG_INPUT, CliError
from cli.ui.listening import listen


def test_a_free_port_is_one_of_this_machine_only() -> None:
    sockets = listen(None)
    names = [each.getsockname()[:2] for each in sockets]
    for each in sockets:
        each.close()
    (port,) = {name[1] for name in names}
    assert port > 0
    assert {name[0] for name in names} <= {"127.0.0.1", "::1"}


def test_a_port_in_use_is_one_sentence_with_the_fix() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CliError) as refused:
            listen(port)
    assert str(refused.value) == f"--port: port {port} of this machine is in use"
    assert refused.value.fix == "choose another one, or leave --port out for a free one"
    assert refused.value.exit_code == WRONG_INPUT


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_what_is_no_port_is_wrong_input(port: str) -> None:
    result = CliRunner().invoke(app, ["ui", "--port", port])
    assert result.exit_code == WRONG_INPUT
    assert "--port" in result.output
