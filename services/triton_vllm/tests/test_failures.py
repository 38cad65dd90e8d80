"""SIGKILL of each part: the launcher ends and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replica.home import ReplicaHome
from replica.processes import marked_processes
from replica_process import (
    GRPC_PORT,
    REPLICA_HANG_S,
    ReplicaProcess,
    fail_triton,
    hold_engine,
    shared_memory_names,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling

NewReplica = Callable[..., ReplicaProcess]

LEFTOVERS = Path(__file__).parents[1] / "leftovers.py"
IMPATIENT_LAUNCHER = Path(__file__).with_name("impatient_launcher.py")

# the fake engine's worker is the second process that multiprocessing spawned
PARTS = ["api_server", "engine", "engine+", "tracker", "tritonserver", "stub", "stub+"]


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_ends_the_replica_and_leaves_nothing(
    new_replica: NewReplica, part: str
) -> None:
    replica = new_replica().start().wait_for("ready")
    made = {
        "psm_": 1,
        "sem.mp-": 6,  # the engine's lock, and five of the event it was waited for with
        "slipway-": 2,  # one per stub
    }

    def noted() -> dict[str, int]:
        names = replica.shared_memory()
        return {kind: sum(name.startswith(kind) for name in names) for kind in made}

    wait_until(lambda: noted() == made)  # it checks every second
    before = replica.shared_memory()
    os.kill(replica.parts()[part], signal.SIGKILL)

    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()
    assert not before & shared_memory_names()
    assert replica.events()[-1]["level"] == "error"
    assert "ended" in replica.events()[-1]["message"]


def test_the_schedulers_tokens_reach_no_part(new_replica: NewReplica) -> None:
    replica = new_replica()
    replica.environment |= {"NOMAD_TOKEN": "secret-1", "CONSUL_TOKEN": "secret-2"}
    replica.start().wait_for("ready")
    parts = list(replica.parts().values())
    assert len(parts) == 8
    for pid in parts:
        assert b"secret-" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_killed_launcher_is_cleaned_up_after_by_the_guard(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    before = replica.shared_memory()
    replica.process.kill()
    wait_until(replica.is_gone)
    assert not before & shared_memory_names()


def test_a_launcher_killed_while_loading_is_cleaned_up_after_too(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("engine_starting")
    wait_until(lambda: "engine" in replica.parts())
    replica.process.kill()
    wait_until(replica.is_gone)


def test_a_killed_guard_is_replaced_and_the_new_one_guards(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    first = replica.parts()["guard"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: replica.parts().get("guard", first) != first)
    assert replica.process.poll() is None
    replica.process.kill()
    wait_until(replica.is_gone)


def test_a_start_clears_what_launcher_and_guard_left_when_killed_together(
    new_replica: NewReplica,
) -> None:
    replica = new_replica().start().wait_for("ready")
    old, before = replica.incarnation, replica.shared_memory()
    os.kill(replica.parts()["guard"], signal.SIGSTOP)  # or it would do the work
    replica.process.kill()
    replica.process.wait()

    replica.start().wait_for("ready", times=2)

    assert replica.phases().count("ready") == 2
    assert replica.incarnation != old
    assert not marked_processes(old)
    assert not before & shared_memory_names()
    if replica.runtime.its_processes_outlive_it:
        assert any("leftovers" in event.get("message", "") for event in replica.events())


@pytest.mark.parametrize(
    ("how", "failure"), [("ends", "ended with exit code 1"), ("hangs", "was stuck")]
)
def test_a_triton_that_does_not_load_is_started_again_and_the_engine_kept(
    new_replica: NewReplica, how: str, failure: str
) -> None:
    replica = new_replica()
    fail_triton(replica, how, times=1)
    replica.launcher = IMPATIENT_LAUNCHER
    replica.start().wait_for("ready")

    warnings = [each["message"] for each in replica.events() if each["level"] == "warning"]
    assert warnings[0] == f"tritonserver {failure} while it loaded: starting it again"
    assert replica.phases().count("engine_starting") == 1
    assert replica.phases().count("triton_starting") == 1 + len(warnings)
    # What the first one was just forking ends by itself.
    wait_until(lambda: len(replica.parts()) == 8)
    prefix = ReplicaHome(replica.folder, replica.incarnation).shared_memory_prefix
    assert (
        sum(name.startswith(prefix) for name in replica.shared_memory_names()) == 2
    )  # one per stub

    os.kill(replica.parts()["tritonserver"], signal.SIGKILL)
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()


def test_a_triton_that_never_loads_ends_the_replica(new_replica: NewReplica) -> None:
    replica = new_replica()
    fail_triton(replica, "ends", times=3)
    go = hold_engine(replica)
    replica.start().wait_for("engine_starting")
    go.touch()

    assert replica.process.wait(REPLICA_HANG_S) == 1
    message = "tritonserver ended with exit code 1 while it loaded, 3 times"
    assert replica.events()[-1]["message"] == message
    assert replica.is_gone()


def test_taking_the_platform_down_removes_what_killed_replicas_left(
    new_replica: NewReplica,
) -> None:
    replica = new_replica().start().wait_for("ready")
    before = replica.shared_memory()
    os.kill(replica.parts()["guard"], signal.SIGSTOP)
    replica.process.kill()
    replica.process.wait()

    scratch = {"SLIPWAY_SCRATCH": str(replica.folder / "s")}
    subprocess.run([sys.executable, LEFTOVERS], env=scratch, check=True)

    assert replica.is_gone()
    assert not before & shared_memory_names()


def fill_the_disk(replica: ReplicaProcess) -> Path:
    """From here on the replica's list of shared memory cannot be written."""
    (folder,) = (replica.folder / "s").glob("r-*")
    obstacle = folder / "shared-memory.new"
    obstacle.mkdir()
    return obstacle


def test_a_launcher_killed_on_a_full_disk_is_cleaned_up_after(new_replica: NewReplica) -> None:
    replica = new_replica()
    go = hold_engine(replica)
    replica.start().wait_for("engine_starting")
    fill_the_disk(replica)
    go.touch()
    replica.wait_for("ready")
    replica.process.kill()
    wait_until(replica.is_gone)


def test_a_part_killed_on_a_full_disk_ends_the_replica(new_replica: NewReplica) -> None:
    replica = new_replica()
    go = hold_engine(replica)
    replica.start().wait_for("engine_starting")
    fill_the_disk(replica)
    go.touch()
    replica.wait_for("ready")
    os.kill(replica.parts()["stub"], signal.SIGKILL)
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()


def test_shared_memory_is_noted_again_once_the_disk_has_room(new_replica: NewReplica) -> None:
    replica = new_replica()
    go = hold_engine(replica)
    replica.start().wait_for("engine_starting")
    obstacle = fill_the_disk(replica)
    go.touch()
    replica.wait_for("ready")
    wait_until(lambda: any("not noted" in event.get("message", "") for event in replica.events()))
    obstacle.rmdir()
    ledger = obstacle.with_suffix(".json")
    wait_until(lambda: ledger.exists() and "slipway-" in ledger.read_text())
    assert replica.stop() == 0


def end_collectors(replica: ReplicaProcess) -> None:
    for collector in replica.collectors:
        collector.kill()
        collector.wait()


def test_a_replica_whose_log_collector_died_drains(new_replica: NewReplica) -> None:
    replica = new_replica().start_collected().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=75))
        answer = Answer()
        stream.receive(answer)
        end_collectors(replica)
        replica.process.terminate()
        replica.release()
        while stream.receive(answer):
            pass
    assert answer.text == " hold" * 75
    assert replica.process.wait(REPLICA_HANG_S) == 0
    assert replica.is_gone()


def test_a_stub_that_dies_after_the_log_collector_ends_the_replica(
    new_replica: NewReplica,
) -> None:
    replica = new_replica().start_collected().wait_for("ready")
    end_collectors(replica)
    os.kill(replica.parts()["stub"], signal.SIGKILL)
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()


def test_a_second_launcher_of_the_same_replica_is_refused(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    first, pids = replica.process, set(replica.marked())
    replica.start()
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert "already runs" in replica.events()[-1]["message"]
    replica.process = first
    assert set(replica.marked()) == pids


def test_two_replicas_on_a_host_do_not_touch_each_others_parts(new_replica: NewReplica) -> None:
    killed, other = new_replica().start(), new_replica()
    other.environment["SLIPWAY_SCRATCH"] = killed.environment["SLIPWAY_SCRATCH"]
    killed.wait_for("ready")
    other.start()
    wait_until(lambda: other.phases()[-1:] == ["ready"])
    with TritonStream(f"{other.address}:{GRPC_PORT}") as stream:
        stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=100))
        os.kill(killed.parts()["stub"], signal.SIGKILL)
        assert killed.process.wait(REPLICA_HANG_S) == 1
        other.release()
        answer = Answer()
        while stream.receive(answer):
            pass
    assert answer.text == " hold" * 100
    assert other.stop() == 0


def test_a_dying_engine_is_an_error_in_band_and_ends_the_replica(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        answer = stream.ask("die mid-stream", stream=True)
    assert answer.error is not None
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()


def test_an_engine_that_never_answers_fails_the_load_at_its_time_limit(
    new_replica: NewReplica,
) -> None:
    replica = new_replica(load_timeout_s=1)
    hold_engine(replica)
    replica.start()
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.events()[-1]["message"] == "not ready after load_timeout_s=1"


def test_a_replica_waits_for_ports_that_another_one_still_drains_on(
    new_replica: NewReplica,
) -> None:
    first, second = new_replica(), new_replica()
    first.start().wait_for("ready")
    second.environment["SLIPWAY_ADDRESS"] = first.address
    second.start()
    wait_until(lambda: any((second.folder / "s").glob("r-*/incarnation")))
    assert "engine_starting" not in second.phases()
    assert first.stop() == 0
    second.wait_for("ready")
    assert second.stop() == 0


def test_a_port_in_use_fails_the_load_at_its_time_limit_instead_of_being_shared(
    new_replica: NewReplica,
) -> None:
    first, second = new_replica(), new_replica(load_timeout_s=1)
    first.start().wait_for("ready")
    second.environment["SLIPWAY_ADDRESS"] = first.address
    second.start()
    assert second.process.wait(REPLICA_HANG_S) == 1
    assert "Address already in use" in second.events()[-1]["message"]
    assert "engine_starting" not in second.phases()
    assert first.process.poll() is None
