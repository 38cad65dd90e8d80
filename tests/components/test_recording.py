"""The engine that creates nothing: what it records, and what it leaves unknown."""

from __future__ import annotations

import pulumi
import pulumi_command as command
import pulumi_random as random
import pytest

from stacks.recording import Recording, Registration, record


class Group(pulumi.ComponentResource):
    def __init__(self, name: str, type_: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"test:index:{type_}", name, {}, opts)
        self.below = pulumi.ResourceOptions(parent=self)
        self.register_outputs({})


def run_command(name: str, create: pulumi.Input[str], opts: pulumi.ResourceOptions | None) -> None:
    command.local.Command(name, create=create, opts=opts)


def test_what_only_a_provider_knows_is_unknown_at_preview_and_there_once_created() -> None:
    def program() -> None:
        password = random.RandomPassword("late", length=8)
        run_command("uses", password.result, None)
        run_command("uses-id", password.id, None)
        run_command("uses-input", password.length.apply(str), None)

    preview = record(program)
    assert preview["uses"].is_unknown("create")
    assert preview["uses-id"].is_unknown("create")
    assert preview["uses-input"].text("create") == "8"
    made = record(program, created=lambda type_, name: {"result": f"{type_} {name}"})
    assert made["uses"].inputs["create"] == "random:index/randomPassword:RandomPassword late"
    assert made["uses-id"].text("create") == "id of late"


def test_two_resources_of_one_name_are_both_recorded_with_the_chain_of_their_parents() -> None:
    def program() -> None:
        outer = Group("same", "Outer")
        inner = Group("same", "Inner", outer.below)
        run_command("same", "true", inner.below)

    recording = record(program, stack="other", project="thing")
    chain = "test:index:Outer$test:index:Inner"
    assert set(recording.by_urn) == {
        "urn:pulumi:other::thing::test:index:Outer::same",
        f"urn:pulumi:other::thing::{chain}::same",
        f"urn:pulumi:other::thing::{chain}$command:local:Command::same",
    }
    assert {found.path for found in recording.by_urn.values()} >= {f"{chain} same"}


def test_depth_first_is_the_same_in_whatever_order_registrations_land() -> None:
    def program() -> None:
        for name in ("b", "a"):
            group = Group(name, "Outer")
            run_command(f"{name}-2", "true", group.below)
            run_command(f"{name}-1", "true", Group(f"{name}-in", "Inner", group.below).below)

    recording = record(program)
    names = [found.name for found in recording.depth_first()]
    assert names == ["a", "a-2", "a-in", "a-1", "b", "b-2", "b-in", "b-1"]
    backwards = Recording()
    for found in reversed(recording.by_urn.values()):
        backwards.add(found)
    assert [found.name for found in backwards.depth_first()] == names


def test_options_that_reviewers_ask_for_are_recorded() -> None:
    def program() -> None:
        run_command("kept", "true", pulumi.ResourceOptions(protect=True))
        run_command("free", "true", pulumi.ResourceOptions(ignore_changes=["environment"]))

    recording = record(program)
    assert (recording["kept"].protect, recording["free"].protect) == (True, False)
    assert recording["free"].ignore_changes == ("environment",)


def test_what_a_program_raises_reaches_the_caller() -> None:
    def program() -> None:
        raise pulumi.RunError("put that right")

    with pytest.raises(pulumi.RunError, match="put that right"):
        record(program)


def test_a_caller_can_keep_what_it_needs_and_no_more() -> None:
    class Names(Recording):
        def add(self, found: Registration) -> None:
            self.finished.add(found.name)

    names = Names()
    assert record(lambda: run_command("only", "true", None), into=names) is names
    assert names.finished == {"only"}
    assert names.by_urn == {}
