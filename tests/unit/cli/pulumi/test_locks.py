from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.environment import Environment
from cli.errors import CliError
from cli.pulumi.locks import clear_stale_locks, exclusive


def put_lock(
    environment: Environment, pid: int, *, host: str | None = None, age_s: float = 0
) -> Path:
    folder = environment.state / ".pulumi" / "locks" / "organization" / "slipway" / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pid}.json"
    created = datetime.now(UTC) - timedelta(seconds=age_s)
    path.write_text(
        json.dumps(
            {
                "pid": pid,
                "username": "somebody",
                "hostname": host or socket.gethostname(),
                "timestamp": created.isoformat(),
            }
        )
    )
    return path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(program) as process:
        yield process
        process.kill()


def ended_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_the_lock_of_an_ended_process_is_cleared_and_reported(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = ended_pid()
    lock = put_lock(environment, pid)
    clear_stale_locks(environment)
    assert not lock.exists()
    assert f"pid {pid}" in capsys.readouterr().err


def test_a_lock_whose_pid_was_given_to_a_later_process_is_cleared(
    environment: Environment, sleeper: subprocess.Popen[bytes]
) -> None:
    lock = put_lock(environment, sleeper.pid, age_s=3600)
    clear_stale_locks(environment, grace_s=0.1)
    assert not lock.exists()
    assert sleeper.poll() is None


def test_the_lock_of_a_living_process_stays_and_the_fix_names_it(
    environment: Environment, sleeper: subprocess.Popen[bytes]
) -> None:
    lock = put_lock(environment, sleeper.pid)
    with pytest.raises(CliError) as refused:
        clear_stale_locks(environment, grace_s=0.1)
    assert f"kill -INT {sleeper.pid}" in refused.value.fix
    assert lock.exists()


def test_a_process_that_ends_within_the_grace_is_waited_for(
    environment: Environment, sleeper: subprocess.Popen[bytes]
) -> None:
    lock = put_lock(environment, sleeper.pid)
    threading.Timer(0.2, sleeper.terminate).start()
    clear_stale_locks(environment, grace_s=20)
    assert not lock.exists()


def test_a_lock_of_another_host_is_reported_with_the_command_that_clears_it(
    environment: Environment,
) -> None:
    lock = put_lock(environment, ended_pid(), host="elsewhere")
    with pytest.raises(CliError, match="somebody@elsewhere") as refused:
        clear_stale_locks(environment)
    assert "pulumi cancel -s dev" in refused.value.fix
    assert lock.exists()


def test_a_lock_that_was_cut_off_while_it_was_written_is_cleared(environment: Environment) -> None:
    lock = put_lock(environment, ended_pid())
    lock.write_text('{"pid": 1')
    clear_stale_locks(environment)
    assert not lock.exists()


def test_a_second_command_on_an_environment_is_refused_and_others_are_not(
    environment: Environment,
) -> None:
    other = Environment(name="dev2", checkout=environment.checkout, cache=environment.cache)
    refusal = pytest.raises(CliError, match=f"pid {os.getpid()}")
    with exclusive(environment), exclusive(other), refusal, exclusive(environment):
        pass
    with exclusive(environment):
        pass


@pytest.mark.usefixtures("python_path")
def test_a_killed_command_leaves_no_lock(environment: Environment) -> None:
    program = (
        "import sys, time; from pathlib import Path;"
        "from cli.environment import Environment;"
        "from cli.pulumi.locks import exclusive\n"
        f"e = Environment(name='dev', checkout=Path({str(environment.checkout)!r}),"
        f" cache=Path({str(environment.cache)!r}))\n"
        "with exclusive(e): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CliError), exclusive(environment):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with exclusive(environment):
            pass
