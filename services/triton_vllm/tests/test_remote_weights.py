"""Weights from an object store and from the model hub: the step as a process, with the real clients
against moto's S3 and a server that speaks the hub's protocol."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hang import HANG_S
from preparation.folder import publish
from preparation.remote.throttle import Throttle
from served_models import (
    COMMIT,
    Hub,
    Store,
    as_files,
    model_content,
    serving_hub,
    serving_store,
    sha256,
)
from weights_step import Step, phases

CONTENT = model_content()
SHARD = "model-00002-of-00004.safetensors"
SIZE = sum(map(len, CONTENT.values()))
Remote = Hub | Store


class RemoteStep(Step):
    def __init__(self, folder: Path, remote: Remote) -> None:
        super().__init__(folder)
        self.remote = remote
        self.environment |= {"SLIPWAY_RETRY_S": "0.001", "HF_HOME": str(folder / "home")}
        # The clients must not find any of this machine's.
        self.environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
        self.give_credentials()

    def give_credentials(self, **changes: str) -> None:
        """As Nomad's template writes them."""
        file = self.folder / "credentials.json"
        file.write_text(json.dumps({**self.remote.credentials, **changes}))
        self.environment["SLIPWAY_CREDENTIALS"] = str(file)

    def document(self, **changes: Any) -> dict[str, Any]:
        access = {"endpoint": self.remote.endpoint, "credentials": "slipway/credentials/models"}
        content = {"schema_version": 2, "source": self.remote.source, "access": access}
        return content | changes

    def fetch(self, **changes: Any) -> tuple[int, list[dict[str, Any]]]:
        return self.run(self.document(**changes))

    def has(self, content: dict[str, bytes]) -> bool:
        """Whether the folder is there with exactly these files and their manifest."""
        found = {
            str(path.relative_to(self.result)): path.read_bytes()
            for path in self.result.rglob("*")
            if path.is_file() and path.name != "slipway-manifest.json"
        }
        manifest = json.loads((self.result / "slipway-manifest.json").read_text())
        return found == content and manifest["files"] == as_files(content)

    @property
    def partial(self) -> Path:
        return self.result.with_name(f".{self.result.name}.fetch")

    def received(self) -> dict[str, int]:
        """Bytes on the disk of files that have begun and are not complete."""
        parts = self.partial / "parts"
        return {
            str(path.relative_to(parts)): path.stat().st_size
            for path in parts.rglob("*")
            if path.is_file() and path.stat().st_size
        }


@pytest.fixture(params=["hub", "store"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    serving = serving_hub if request.param == "hub" else serving_store
    with serving(CONTENT) as served:
        yield served


@pytest.fixture
def step(tmp_path: Path, remote: Remote) -> RemoteStep:
    return RemoteStep(tmp_path, remote)


@pytest.fixture
def store_step(tmp_path: Path) -> Iterator[RemoteStep]:
    with serving_store(CONTENT) as store:
        yield RemoteStep(tmp_path, store)


@pytest.fixture
def hub_step(tmp_path: Path) -> Iterator[RemoteStep]:
    with serving_hub(CONTENT) as hub:
        yield RemoteStep(tmp_path, hub)


def test_a_model_is_fetched_whole_with_a_manifest_of_every_file(step: RemoteStep) -> None:
    code, events = step.fetch()
    assert code == 0, events
    assert phases(events) == [
        "waiting_for_lock",
        "listing",
        "downloading",
        "writing_manifest",
        "ready",
    ]
    assert step.has(CONTENT)
    assert json.loads((step.result / "slipway-manifest.json").read_text())["source"] == (
        step.remote.source
    )
    assert sorted(path.name for path in step.result.parent.iterdir()) == sorted(
        f"{prefix}{step.result.name}{ending}"
        for prefix, ending in (
            ("", ""),
            (".", ".listing.json"),
            (".", ".lock"),
            (".", ".manifest.json"),
        )
    )


def test_a_whole_folder_is_kept_without_asking_anybody(step: RemoteStep) -> None:
    step.fetch()
    asked = (step.remote.listings, len(step.remote.answers))
    code, events = step.fetch()
    assert (code, phases(events)) == (0, ["waiting_for_lock", "verifying", "ready"])
    assert (step.remote.listings, len(step.remote.answers)) == asked


def test_a_run_killed_at_random_moments_goes_on_where_it_was(
    tmp_path: Path, remote: Remote
) -> None:
    content = model_content(shard_bytes=12_000_000)
    remote.put(content)
    size = sum(map(len, content.values()))
    step, moments = RemoteStep(tmp_path, remote), random.Random(7)
    document = step.document(limits={"files_at_once": 2})
    kills = sorted(moments.randrange(size // 100, size - 200_000) for _ in range(11))
    for moment in kills:
        again = remote.sent_again()
        remote.hold_after(moment + again)
        process = step.start(document)
        assert remote.wait_for_sent(moment + again, HANG_S), process.communicate()
        process.kill()
        process.communicate()
        assert not step.result.exists()
        remote.hold_after(0)  # what is still being sent to nobody ends
    remote.hold_after(None)
    code, events = step.run(document)
    assert code == 0, events
    assert step.has(content)
    assert remote.sent_again() <= size // 10


@pytest.mark.parametrize(
    "statuses",
    [
        [(429, {"Retry-After": "0"})] * 3,
        [(503, {})] * 3,
        [(500, {})] * 2 + [(502, {})],
    ],
    ids=["429", "503", "5xx"],
)
def test_a_source_that_is_busy_for_a_while_is_asked_again(
    step: RemoteStep, statuses: list[tuple[int, dict[str, str]]]
) -> None:
    step.remote.faults.of_listings = list(statuses[:2])
    step.remote.faults.statuses = list(statuses)
    code, events = step.fetch()
    assert code == 0, events
    assert step.has(CONTENT)
    assert (step.remote.faults.statuses, step.remote.faults.of_listings) == ([], [])


def test_a_source_that_stays_away_is_named_and_nothing_is_lost(step: RemoteStep) -> None:
    step.remote.faults.cut_after = [len(CONTENT["model.safetensors.index.json"]), 100_000]
    step.remote.faults.cut_after += [0] * 1000
    code, events = step.fetch(limits={"files_at_once": 1})
    assert code == 1
    assert events[-1]["message"].startswith(f"{_described(step.remote)}: ")
    assert "the next run resumes" in events[-1]["fix"]
    assert not step.result.exists()
    kept = step.received()
    assert 0 < sum(kept.values()) <= 100_000
    step.remote.faults.cut_after = []
    answered = len(step.remote.answers)
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)
    starts = {answer.name: answer.start for answer in step.remote.answers[answered:]}
    assert {name: starts[name] for name in kept} == kept


def test_a_connection_that_ends_early_is_continued(step: RemoteStep) -> None:
    step.remote.faults.cut_after = [10, 150_000, 7, 299_999, 1, 50_000]
    code, events = step.fetch()
    assert code == 0, events
    assert step.has(CONTENT)
    assert step.remote.sent_again() == 0
    assert step.remote.sent == SIZE


def test_a_byte_that_was_flipped_on_the_way_is_fetched_again(step: RemoteStep) -> None:
    step.remote.faults.flip = [SHARD]
    code, events = step.fetch()
    assert code == 0, events
    assert step.has(CONTENT)
    assert step.remote.sent_again() == len(CONTENT[SHARD])


def test_a_file_that_keeps_coming_damaged_is_never_published(step: RemoteStep) -> None:
    step.remote.faults.flip = [SHARD, SHARD]
    code, events = step.fetch()
    assert code == 1
    assert SHARD in events[-1]["message"]
    assert "in 2 attempts" in events[-1]["message"]
    assert "proxy" in events[-1]["fix"]
    assert not step.result.exists()


def test_a_byte_that_was_flipped_on_the_disk_is_found_and_fetched_again(step: RemoteStep) -> None:
    step.fetch()
    file = step.result / SHARD
    file.write_bytes(bytes([CONTENT[SHARD][0] ^ 1]) + CONTENT[SHARD][1:])
    code, events = step.fetch()
    assert code == 0, events
    assert [event["reason"] for event in events if event["level"] == "warning"] == [
        f"{SHARD} has the wrong checksum"
    ]
    assert step.has(CONTENT)


def test_a_file_that_was_damaged_between_two_runs_is_fetched_again(step: RemoteStep) -> None:
    step.remote.faults.cut_after = [
        len(CONTENT["model.safetensors.index.json"]),
        len(CONTENT[SHARD]),
        *[0] * 1000,
    ]
    step.fetch(limits={"files_at_once": 1})
    complete = step.partial / "files"
    (name,) = [path.name for path in complete.glob("*.safetensors")]
    (complete / name).write_bytes(bytes(len(CONTENT[name])))
    step.remote.faults.cut_after = []
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)


def test_a_model_of_which_one_file_is_damaged_is_not_fetched_as_a_whole(step: RemoteStep) -> None:
    step.fetch()
    sent = step.remote.sent
    (step.result / SHARD).write_bytes(bytes(len(CONTENT[SHARD])))
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)
    assert step.remote.sent - sent == len(CONTENT[SHARD])


def test_a_run_that_was_killed_while_it_published_leaves_nothing_in_the_model(
    step: RemoteStep,
) -> None:
    step.remote.faults.cut_after = [1000, 200_000] + [0] * 1000
    step.fetch(limits={"files_at_once": 1})
    for left in ("slipway-manifest.json", ".slipway-manifest.json.new", "removed.json"):
        (step.partial / "files" / left).write_text("{}")
    step.remote.faults.cut_after = []
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)
    step.partial.mkdir()
    assert step.fetch()[0] == 0
    assert not step.partial.exists()


def test_a_part_that_is_larger_than_its_file_is_fetched_anew(step: RemoteStep) -> None:
    step.remote.faults.cut_after = [1000, 200_000] + [0] * 1000
    step.fetch(limits={"files_at_once": 1})
    (name,) = step.received()
    with (step.partial / "parts" / name).open("ab") as part:
        part.write(bytes(1_000_000))
    step.remote.faults.cut_after = []
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)


def test_a_folder_is_published_with_exactly_the_files_that_are_known(tmp_path: Path) -> None:
    partial, folder = tmp_path / "partial", tmp_path / "folder"
    partial.mkdir()
    for name in ("a.json", "b.json"):
        (partial / name).write_bytes(b"{}")
    publish(partial, folder, {"path": "/x"}, {"a.json": sha256(b"{}")})
    assert sorted(path.name for path in folder.iterdir()) == ["a.json", "slipway-manifest.json"]


@pytest.mark.parametrize("when", ["before it was complete", "after it was complete"])
def test_a_model_that_changes_behind_its_revision_is_refused_and_not_mixed(
    store_step: RemoteStep, when: str
) -> None:
    step, store = store_step, store_step.remote
    if when == "before it was complete":
        store.faults.cut_after = [200_000] + [0] * 1000
    assert step.fetch(limits={"files_at_once": 1})[0] == (when == "before it was complete")
    store.faults.cut_after = []
    store.put({SHARD: CONTENT[SHARD][::-1]})
    if step.result.exists():
        (step.result / "config.json").unlink()
    code, events = step.fetch()
    assert code == 2
    assert (events[-1]["key"], SHARD in events[-1]["message"]) == ("source.revision", True)
    assert "other files than when this host" in events[-1]["message"]
    assert "a new source.revision" in events[-1]["fix"]
    assert not (step.result / "config.json").exists()

    store.put({SHARD: CONTENT[SHARD]})  # brought back
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)


def test_a_model_that_changes_while_it_is_fetched_is_refused(store_step: RemoteStep) -> None:
    step, store = store_step, store_step.remote
    store.hold_after(150_000)
    process = step.start(step.document(limits={"files_at_once": 1}))
    assert store.wait_for_sent(150_000, HANG_S)
    changed = {name: data[::-1] for name, data in CONTENT.items() if name.startswith("model-")}
    store.put(changed)
    store.hold_after(None)
    output, _ = process.communicate(timeout=HANG_S)
    failure = json.loads(output.splitlines()[-1])
    assert process.returncode == 2
    assert failure["key"] == "source.revision"
    assert "changed while it was fetched" in failure["message"]
    assert not step.result.exists()


def test_a_mirror_that_has_other_files_for_the_commit_is_refused(hub_step: RemoteStep) -> None:
    step = hub_step
    step.fetch()
    (step.result / SHARD).unlink()
    step.remote.put({SHARD: CONTENT[SHARD][::-1]})
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.revision")
    assert SHARD in events[-1]["message"]


def test_the_files_of_the_model_file_are_what_must_come(step: RemoteStep) -> None:
    code, events = step.fetch(files=as_files(CONTENT))
    assert code == 0, events
    assert step.has(CONTENT)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({SHARD: {"bytes": 1, "sha256": "0" * 64}}, SHARD),
        ({"more.json": {"bytes": 1, "sha256": "0" * 64}}, "more.json"),
        ({SHARD: {"bytes": len(CONTENT[SHARD]), "sha256": "0" * 64}}, SHARD),
    ],
    ids=["size", "another file", "checksum"],
)
def test_other_files_than_the_model_file_lists_are_refused(
    step: RemoteStep, changes: dict[str, Any], named: str
) -> None:
    code, events = step.fetch(files=as_files(CONTENT) | changes)
    assert (code, events[-1]["key"]) == (2, "source.files")
    assert f"than the model file says: {named}" in events[-1]["message"]
    assert not step.result.exists()


def test_the_model_file_may_list_files_that_are_not_taken_by_themselves(step: RemoteStep) -> None:
    content = CONTENT | {"LICENSE": b"words", "vocab.bpe": b"a b"}
    step.remote.put(content)
    code, events = step.fetch(files=as_files(content))
    assert code == 0, events
    assert step.has(content)


def test_what_the_model_file_lists_outranks_what_was_fetched_first(store_step: RemoteStep) -> None:
    changed = CONTENT | {SHARD: CONTENT[SHARD][::-1]}
    store_step.fetch()
    store_step.remote.put(changed)
    code, events = store_step.fetch(files=as_files(changed))
    assert code == 0, events
    assert store_step.has(changed)


def test_two_runs_at_once_fetch_once(step: RemoteStep) -> None:
    runs = [step.start(step.document()) for _ in range(2)]
    outputs = [run.communicate(timeout=HANG_S)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert step.has(CONTENT)
    assert step.remote.sent == SIZE
    assert sum('"verifying"' in output for output in outputs) == 1


def test_an_upload_that_is_not_complete_is_refused(step: RemoteStep) -> None:
    step.remote.remove(SHARD)
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, step.remote.key)
    assert f"such as {SHARD}" in events[-1]["message"]
    assert len(step.remote.answers) == 1  # the index


def test_a_folder_without_a_model_is_refused(step: RemoteStep) -> None:
    step.remote.remove("config.json")
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, step.remote.key)
    assert "lacks config.json" in events[-1]["message"]
    assert step.remote.answers == []


@pytest.mark.parametrize("content", [b"no JSON", b"[]", b"{}"])
def test_an_index_that_is_none_is_refused(step: RemoteStep, content: bytes) -> None:
    step.remote.put({"model.safetensors.index.json": content})
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, step.remote.key)
    assert "index.json that is not one" in events[-1]["message"]


@pytest.mark.parametrize("name", ["../up.json", "a//b.json", "config.json/x.json"])
def test_names_that_cannot_be_files_of_the_folder_are_refused(
    store_step: RemoteStep, name: str
) -> None:
    store_step.remote.put({name: b"{}"})
    code, events = store_step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.s3")
    assert "config.json" in events[-1]["message"] or name in events[-1]["message"]
    assert store_step.remote.answers == []


def test_a_mirror_that_does_not_state_sizes_is_refused(hub_step: RemoteStep) -> None:
    hub = hub_step.remote
    assert isinstance(hub, Hub)
    hub.states_sizes = False
    code, events = hub_step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.endpoint")
    assert "without its size" in events[-1]["message"]


def test_a_bucket_that_cannot_have_this_name_is_refused_at_once(store_step: RemoteStep) -> None:
    code, events = store_step.fetch(source={"s3": "s3://My_Bucket!/x/", "revision": "1"})
    assert (code, events[-1]["key"]) == (2, "source.s3")
    assert "My_Bucket!" in events[-1]["message"]


def test_a_users_own_token_does_not_go_to_a_mirror(hub_step: RemoteStep) -> None:
    hub_step.environment["HF_TOKEN"] = "hf_of_the_user"
    assert hub_step.fetch(access={"endpoint": hub_step.remote.endpoint})[0] == 0
    assert {answer.authorization for answer in hub_step.remote.answers} == {None}


def test_a_store_that_is_not_mounted_is_not_made(step: RemoteStep, tmp_path: Path) -> None:
    step.environment["SLIPWAY_STORE"] = str(tmp_path / "models")
    code, events = step.fetch()
    assert code == 1
    assert f"nothing is mounted at {tmp_path}/models" in events[-1]["message"]
    assert "/etc/fstab" in events[-1]["fix"]
    assert not (tmp_path / "models").exists()
    assert step.remote.listings == 0


def test_only_what_makes_the_model_is_fetched(step: RemoteStep) -> None:
    step.remote.put(
        {
            "README.md": b"words",
            "pytorch_model.bin": b"the same again",
            "consolidated.safetensors": b"the same again",
            "original/params.json": b"{}",
            ".cache/x.json": b"{}",
            "additional_chat_templates/tools.jinja": b"{{ tools }}",
        }
    )
    code, events = step.fetch()
    assert code == 0, events
    assert step.has(CONTENT | {"additional_chat_templates/tools.jinja": b"{{ tools }}"})


def test_a_full_disk_is_this_machines_fault_and_is_continued(step: RemoteStep) -> None:
    step.prefix = ["sh", "-c", 'ulimit -f 150 && exec "$0" "$@"']  # files of 75 KiB at most
    code, events = step.fetch()
    assert code == 1
    assert "File too large" in events[-1]["message"]
    assert "df -h" in events[-1]["fix"]
    assert not step.result.exists()
    assert max(step.received().values()) == 75 * 1024
    step.prefix = []
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)


def test_a_terminated_run_ends_while_its_source_is_silent(step: RemoteStep) -> None:
    step.remote.hold_after(100_000)
    process = step.start(step.document())
    assert step.remote.wait_for_sent(100_000, HANG_S)
    process.terminate()
    process.communicate(timeout=HANG_S)
    step.remote.hold_after(None)
    assert process.returncode == 128 + 15
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)


def test_after_a_power_cut_what_was_under_way_is_fetched_anew(step: RemoteStep) -> None:
    step.remote.faults.cut_after = [1000, 200_000] + [0] * 1000
    step.fetch(limits={"files_at_once": 1})
    (name,) = step.received()
    part = step.partial / "parts" / name
    part.write_bytes(bytes(part.stat().st_size))  # as a file whose blocks were never written
    state = json.loads((step.partial / "state.json").read_text())
    (step.partial / "state.json").write_text(json.dumps(state | {"boot": "another"}))
    step.remote.faults.cut_after = []
    answered = len(step.remote.answers)
    assert step.fetch()[0] == 0
    assert step.has(CONTENT)
    assert {a.name: a.start for a in step.remote.answers[answered:]}[name] == 0


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_bandwidth_is_bounded_over_everything_that_comes() -> None:
    clock = Clock()
    throttle = Throttle(1000, clock=lambda: clock.now_s, sleep=clock.sleep)
    for size_bytes in (500, 1000, 250, 250):
        throttle.wait_for(size_bytes)
    assert clock.now_s == 102.0
    clock.now_s += 60  # a pause saves nothing up
    throttle.wait_for(1000)
    assert clock.now_s == 163.0


def test_without_a_limit_nothing_waits() -> None:
    clock = Clock()
    Throttle(None, clock=lambda: clock.now_s, sleep=clock.sleep).wait_for(10**12)
    assert clock.now_s == 100.0


@pytest.mark.parametrize(
    ("source", "key", "message", "fix"),
    [
        ({"s3": "s3://nowhere/tiny/", "revision": "1"}, "source.s3", "NoSuchBucket", "name"),
        ({"s3": "s3://models/other/", "revision": "1"}, "source.s3", "has no files", "folder"),
    ],
)
def test_a_wrong_bucket_is_named(
    store_step: RemoteStep, source: dict[str, str], key: str, message: str, fix: str
) -> None:
    code, events = store_step.fetch(source=source)
    assert (code, events[-1]["key"]) == (2, key)
    assert message in events[-1]["message"]
    assert fix in events[-1]["fix"]


def test_a_bucket_that_may_not_be_listed_is_refused_with_what_to_give(
    store_step: RemoteStep,
) -> None:
    store_step.remote.faults.of_listings = [(403, {})]
    code, events = store_step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.s3")
    assert "403" in events[-1]["message"]
    assert "s3:ListBucket" in events[-1]["fix"]


def test_a_file_that_may_not_be_read_is_refused(step: RemoteStep) -> None:
    step.remote.faults.statuses = [(403, {})]
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, step.remote.key)
    assert "403" in events[-1]["message"]


def test_who_has_no_credentials_asks_anonymously(step: RemoteStep) -> None:
    if isinstance(step.remote, Store):
        step.remote.put(CONTENT, ACL="public-read")
    code, events = step.fetch(access={"endpoint": step.remote.endpoint})
    assert code == 0, events
    assert {answer.authorization for answer in step.remote.answers} == {None}


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("SignatureDoesNotMatch", "replace them"),
        ("RequestTimeTooSkewed", "clock"),
        ("AccessDenied", "s3:ListBucket"),
    ],
)
def test_each_refusal_of_a_store_has_its_own_fix(
    store_step: RemoteStep, code: str, fix: str
) -> None:
    store_step.remote.faults.refusal = code
    store_step.remote.faults.of_listings = [(403, {})]
    _, events = store_step.fetch()
    assert code in events[-1]["message"]
    assert fix in events[-1]["fix"]


@pytest.mark.parametrize(
    ("source", "key", "message"),
    [
        ({"hf": "org/other", "revision": COMMIT}, "source.hf", "does not exist, or is private"),
        ({"hf": "org/tiny", "revision": "f" * 40}, "source.revision", "has no commit"),
    ],
)
def test_a_wrong_repository_or_commit_is_named(
    hub_step: RemoteStep, source: dict[str, str], key: str, message: str
) -> None:
    code, events = hub_step.fetch(source=source)
    assert (code, events[-1]["key"]) == (2, key)
    assert message in events[-1]["message"]


def test_a_private_repository_needs_its_token_and_shows_it_to_the_hub_only(
    hub_step: RemoteStep,
) -> None:
    hub = hub_step.remote
    assert isinstance(hub, Hub)
    hub.private = True
    code, events = hub_step.fetch(access={"endpoint": hub.endpoint})
    assert (code, events[-1]["key"]) == (2, "source.hf")
    assert "source.credentials" in events[-1]["fix"]

    assert hub_step.fetch()[0] == 0
    shown = {answer.name: answer.authorization for answer in hub.answers}
    assert shown["config.json"] == f"Bearer {hub.canary}"
    assert shown[SHARD] is None  # it is kept elsewhere


def test_a_gated_repository_says_what_to_accept(hub_step: RemoteStep) -> None:
    hub = hub_step.remote
    assert isinstance(hub, Hub)
    hub.gated = True
    code, events = hub_step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.hf")
    assert "gated" in events[-1]["message"]
    assert "accept the terms" in events[-1]["fix"]


def test_credentials_that_are_not_in_the_variable_are_asked_for(step: RemoteStep) -> None:
    step.give_credentials(**dict.fromkeys(step.remote.credentials, ""))
    code, events = step.fetch()
    assert (code, events[-1]["key"]) == (2, "source.credentials")
    assert events[-1]["fix"].startswith("nomad var put -force slipway/credentials/models ")
    assert step.remote.listings == 0


def test_credentials_never_travel_in_plain_text(step: RemoteStep) -> None:
    access = {"endpoint": "http://mirror.example", "credentials": "slipway/credentials/models"}
    code, events = step.fetch(access=access)
    assert (code, events[-1]["key"]) == (2, "source.endpoint")
    assert "plain text" in events[-1]["message"]


def test_credentials_are_written_nowhere(step: RemoteStep) -> None:
    step.remote.faults.statuses = [(403, {})]
    outputs = []
    for _ in range(2):  # a refusal, and a fetch
        process = step.start(step.document())
        outputs += process.communicate(timeout=HANG_S)
    assert step.has(CONTENT)
    written = [
        path.read_bytes()
        for path in itertools.chain(step.runtime.rglob("*"), (step.folder / "home").rglob("*"))
        if path.is_file()
    ]
    assert written
    for value in step.remote.credentials.values():
        assert not any(value.encode() in content for content in written)
        assert not any(value in output for output in outputs)


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32", "CRC32C", "CRC64NVME"])
def test_stated_checksums_of_a_store_are_verified_when_a_file_is_continued(
    tmp_path: Path, algorithm: str
) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(serving_store(CONTENT, ChecksumAlgorithm=algorithm))
        step = RemoteStep(tmp_path, store)
        store.faults.cut_after = [1000, 200_000] + [0] * 1000
        step.fetch(limits={"files_at_once": 1})
        (name,) = step.received()
        part = step.partial / "parts" / name
        part.write_bytes(bytes(part.stat().st_size))
        store.faults.cut_after = []
        assert step.fetch()[0] == 0
        assert step.has(CONTENT)


def _described(remote: Remote) -> str:
    return f"org/tiny at {COMMIT[:12]}" if isinstance(remote, Hub) else "s3://models/tiny/"
