"""Members of a group find each other, begin together, and learn that one is gone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from program.group.giving_back import MOST_PATIENCE, patience_s
from program.group.links import BEAT_S, LOOK_S, SUSPECT_BEATS, Silence
from program.group.members import Member, leaders, read_members
from program.group.membership import (
    Formation,
    IncompleteError,
    Meeting,
    Membership,
    joined,
)
from program.group.place import Place, index_of, own_index, place_of
from program.group.settings import Group, member_environment, read_group, read_meeting

HANG_S = 60.0
ADDRESS = "127.91.7.{}"
PORT = 7100


def meeting(file: Path, index: int, *, size: int = 2, name: str = "model-a") -> Meeting:
    address = ADDRESS.format(index + 1)
    return Meeting(
        name=name,
        place=place_of(index, size),
        allocation=f"allocation-{index}",
        address=address,
        port=PORT,
        fabric_address=address,
        members_file=file,
        silence_s=2.0,
    )


def line(index: int, *, allocation: str = "", port: int = PORT) -> str:
    return json.dumps(
        {
            "replica": f"model-a.replica[{index}]",
            "allocation": allocation or f"allocation-{index}",
            "address": ADDRESS.format(index + 1),
            "port": port,
        }
    )


HELLO = {"name": "model-a", "size": 2, "group": 0, "rank": 1, "allocation": "x"}


async def connected(source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """From this address to where rank 0 listens."""
    return await asyncio.open_connection(ADDRESS.format(1), PORT, local_addr=(source, 0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "members.json"
    found.write_text("\n".join(line(index) for index in range(6)) + "\n")
    return found


def join(
    meeting: Meeting, deadline_s: float
) -> contextlib.AbstractAsyncContextManager[tuple[Membership, Formation]]:
    """Each attempt is that of another allocation."""
    folder = Path(tempfile.mkdtemp(dir=meeting.members_file.parent))
    return joined(meeting, lambda _: None, deadline_s, folder)


@contextlib.asynccontextmanager
async def group(
    *meetings: Meeting,
) -> AsyncIterator[list[tuple[Membership, Formation]]]:
    async with contextlib.AsyncExitStack() as stack:
        yield await asyncio.wait_for(
            asyncio.gather(*(stack.enter_async_context(join(each, HANG_S)) for each in meetings)),
            HANG_S,
        )


@pytest.mark.parametrize(
    ("index", "size", "place"), [(0, 2, (0, 0)), (3, 2, (1, 1)), (6, 3, (2, 0)), (8, 3, (2, 2))]
)
def test_a_place_follows_from_the_index_alone(
    index: int, size: int, place: tuple[int, int]
) -> None:
    assert place_of(index, size) == Place(group=place[0], rank=place[1], size=size)


def test_an_index_is_read_from_the_name_of_an_allocation() -> None:
    assert index_of("model-a.replica[12]") == 12
    with pytest.raises(ValueError, match="has no index"):
        index_of("model-a.replica")


def test_a_task_without_an_index_is_refused() -> None:
    assert own_index({"NOMAD_ALLOC_INDEX": "4"}) == 4
    with pytest.raises(ValueError, match="NOMAD_ALLOC_INDEX"):
        own_index({})


def test_the_leader_of_a_group_is_its_first_member(file: Path) -> None:
    assert [each.index for each in leaders(read_members(file), place_of(3, 2))] == [2]


def test_a_half_written_file_has_no_members(tmp_path: Path) -> None:
    file = tmp_path / "members.json"
    assert read_members(file) == []
    file.write_text(line(0)[:-3])
    assert read_members(file) == []
    file.write_text(line(0) + "\n\n")
    assert read_members(file) == [
        Member(index=0, allocation="allocation-0", address="127.91.7.1", port=PORT)
    ]


@pytest.mark.parametrize("size", [2, 3])
async def test_all_members_have_the_same_formation(file: Path, size: int) -> None:
    async with group(*(meeting(file, index, size=size) for index in range(size))) as formed:
        formations = {formation for _, formation in formed}
        assert len(formations) == 1
        assert formations.pop().master_address == "127.91.7.1"
        assert not any(membership.is_suspect for membership, _ in formed)


async def test_each_formation_has_an_epoch_of_its_own(file: Path) -> None:
    epochs = set()
    for _ in range(2):
        async with group(meeting(file, 0), meeting(file, 1)) as formed:
            epochs.add(formed[0][1].epoch)
    assert len(epochs) == 2


async def test_the_second_group_does_not_meet_the_first(file: Path) -> None:
    async with group(*(meeting(file, index) for index in range(4))) as formed:
        first, second, third, fourth = (formation for _, formation in formed)
        assert first == second
        assert third == fourth
        assert first.epoch != third.epoch


async def test_a_group_that_lacks_a_member_says_which(file: Path) -> None:
    with pytest.raises(IncompleteError, match=r"group 0 .* after [12] s: missing rank 1"):
        async with join(meeting(file, 0), 1):
            pass
    with pytest.raises(IncompleteError, match="missing rank 0"):
        async with join(meeting(file, 1), 1):
            pass


async def test_a_member_that_gave_its_host_back_does_not_wait_again(file: Path) -> None:
    folder = file.parent
    with pytest.raises(IncompleteError, match="missing rank 1"):
        async with joined(meeting(file, 0), lambda _: None, 1, folder):
            pass
    with pytest.raises(IncompleteError, match=r"given back: group 0 is incomplete after [12] s"):
        async with joined(meeting(file, 0), lambda _: None, HANG_S, folder):
            pass


def test_members_give_up_at_different_times_but_within_a_bound() -> None:
    waits = {patience_s(600) for _ in range(100)}
    assert len(waits) > 1
    assert all(600 <= each <= MOST_PATIENCE * 600 for each in waits)


async def test_a_replacement_that_inherits_the_folder_waits_for_the_others(file: Path) -> None:
    folder = file.parent
    with pytest.raises(IncompleteError, match="missing rank 1"):
        async with joined(meeting(file, 0), lambda _: None, 1, folder):
            pass
    replacement = dataclasses.replace(meeting(file, 0), allocation="another")
    file.write_text("\n".join([line(0, allocation="another"), line(1)]) + "\n")
    async with contextlib.AsyncExitStack() as stack:
        members = await asyncio.gather(
            stack.enter_async_context(joined(replacement, lambda _: None, HANG_S, folder)),
            stack.enter_async_context(join(meeting(file, 1), HANG_S)),
        )
        assert len({formation for _, formation in members}) == 1


async def test_a_member_that_ends_ends_the_formation_for_all(file: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        members = [Membership(meeting(file, index, size=3), lambda _: None) for index in range(3)]
        for member in members:
            await stack.enter_async_context(member)
        await asyncio.gather(*(member.form(HANG_S) for member in members))
        await members[2].__aexit__()
        assert "rank 2 is gone" in await asyncio.wait_for(members[0].lost, HANG_S)
        assert members[0].is_suspect
        await members[0].__aexit__()
        assert "rank 0 is gone" in await asyncio.wait_for(members[1].lost, HANG_S)


async def test_a_member_that_ends_before_the_formation_is_waited_for_again(file: Path) -> None:
    async with Membership(meeting(file, 0, size=3), lambda _: None) as leader:
        forming = asyncio.create_task(leader.form(HANG_S))
        async with Membership(meeting(file, 1, size=3), lambda _: None) as early:
            waiting = asyncio.create_task(early.form(HANG_S))
            while 1 not in leader._links:
                await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        while 1 in leader._links:
            await asyncio.sleep(0.01)
        assert not forming.done()
        async with group(meeting(file, 1, size=3), meeting(file, 2, size=3)) as formed:
            assert {formation for _, formation in formed} == {await forming}


async def test_a_late_member_is_refused_by_the_formation_that_has_begun(file: Path) -> None:
    async with group(meeting(file, 0), meeting(file, 1)) as formed:
        with pytest.raises(IncompleteError, match="missing rank 0"):
            async with join(meeting(file, 1), 1):
                pass
        assert not formed[0][0].lost.done()


@pytest.mark.parametrize(
    "wrong", [{"name": "model-b"}, {"size": 3}, {"group": 1}, {"rank": 0}, {"rank": "1"}]
)
async def test_a_member_of_another_group_is_refused(file: Path, wrong: dict[str, object]) -> None:
    async with Membership(meeting(file, 0), lambda _: None) as leader:
        reader, writer = await connected("127.91.7.2")
        hello = {**HELLO, **wrong}
        writer.write(json.dumps(hello).encode() + b"\n")
        answer = await asyncio.wait_for(reader.readline(), HANG_S)
        assert json.loads(answer)["refused"]
        assert not leader._links
        writer.close()


async def test_a_host_that_has_no_member_gets_no_answer(file: Path) -> None:
    async with Membership(meeting(file, 0), lambda _: None) as leader:
        forming = asyncio.create_task(leader.form(HANG_S))
        reader, writer = await connected("127.91.7.200")
        writer.write(json.dumps(HELLO).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), HANG_S) == b""
        writer.close()
        assert not leader._links
        async with group(meeting(file, 1)) as [(_, formation)]:
            assert formation == await forming


async def test_a_beat_of_another_formation_ends_this_one(file: Path) -> None:
    async with group(meeting(file, 0), meeting(file, 1)) as formed:
        (leader, _), (member, _) = formed
        member._links[0].send({"beat": "of before"})
        assert "another formation" in await asyncio.wait_for(leader.lost, HANG_S)


async def test_a_silent_member_is_suspect_before_it_is_lost(file: Path) -> None:
    async with Membership(meeting(file, 0), lambda _: None) as leader:
        forming = asyncio.create_task(leader.form(HANG_S))
        _, writer = await connected("127.91.7.2")
        writer.write(json.dumps(HELLO).encode() + b"\n")
        await asyncio.wait_for(forming, HANG_S)
        while not leader.is_suspect:
            await asyncio.sleep(0.01)
        assert leader.may_be_lost
        assert "silent" in await asyncio.wait_for(leader.lost, HANG_S)
        writer.close()


async def test_a_member_that_is_asked_to_end_lets_rank_0_finish(file: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        leader, member = (Membership(meeting(file, index), lambda _: None) for index in range(2))
        await stack.enter_async_context(leader)
        await stack.enter_async_context(member)
        await asyncio.gather(leader.form(HANG_S), member.form(HANG_S))
        leaving = asyncio.create_task(member.leave())
        await asyncio.wait_for(leader.another_leaves.wait(), HANG_S)
        assert leader.is_suspect
        assert not leader.may_be_lost  # what begins now is finished
        assert not leaving.done()
        await leader.__aexit__()
        await asyncio.wait_for(leaving, HANG_S)


def test_whoever_was_stopped_itself_does_not_count_the_gap() -> None:
    now = [0.0]
    silence = Silence(lambda: now[0])
    now[0] = 100.0
    silence.look()
    assert silence.quiet_for_s == 2 * LOOK_S
    assert not silence.is_suspect
    for _ in range(round(SUSPECT_BEATS * BEAT_S / LOOK_S)):
        now[0] += LOOK_S
        silence.look()
    assert silence.is_suspect
    silence.heard()
    assert not silence.is_suspect


def test_the_interface_of_a_member_is_the_one_with_its_address() -> None:
    group = Group(
        members=2,
        silence_s=5,
        formation_s=60,
        interface="",
        environment={"GLOO_SOCKET_IFNAME": "{interface}", "NCCL_SOCKET_IFNAME": "={interface}"},
    )
    assert member_environment(group, "127.0.0.1") == {
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "=lo",
        "VLLM_HOST_IP": "127.0.0.1",
    }
    stated = dataclasses.replace(group, interface="ib0")
    assert member_environment(stated, "10.1.0.1")["GLOO_SOCKET_IFNAME"] == "ib0"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"members": 1}, "group.members"),
        ({"silence_s": 0}, "group.silence_s"),
        ({"formation_s": "60"}, "group.formation_s"),
        ({"environment": []}, "group.environment"),
    ],
)
def test_a_wrong_group_is_refused_with_its_key(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_group({"members": 2, "silence_s": 5, "formation_s": 60} | wrong)


def test_an_interface_that_the_host_does_not_have_is_refused() -> None:
    group = read_group({"members": 2, "silence_s": 5, "formation_s": 60, "interface": "ib9"})
    variables = {
        "NOMAD_ALLOC_INDEX": "0",
        "NOMAD_ALLOC_ID": "a",
        "NOMAD_JOB_ID": "model-a",
        "SLIPWAY_PORT_GROUP": "7100",
        "SLIPWAY_GROUP_ADDRESS": "127.0.0.1",
        "SLIPWAY_MEMBERS": "members.json",
    }
    with pytest.raises(ValueError, match="interface ib9"):
        read_meeting(group, variables)
    with pytest.raises(ValueError, match="SLIPWAY_MEMBERS is not set"):
        read_meeting(dataclasses.replace(group, interface=""), variables | {"SLIPWAY_MEMBERS": ""})
