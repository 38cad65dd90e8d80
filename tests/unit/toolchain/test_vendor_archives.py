"""The real pins against vendors played on this machine: what is used, and what is refused."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolchain.stand_ins import files_under, program, put_go, sha256
from tests.vendors import HOSTS, SigningKey, Vendors, place, playing_vendors
from toolchain import vendors as vendors_module
from toolchain.archives_lock import ArchivesLock
from toolchain.built_instead import say_what_is_built
from toolchain.errors import ToolchainError
from toolchain.locks import exclusive
from toolchain.pins import ArchivePin, ToolPin, tool_pin, tool_pins
from toolchain.progress import Progress, Step, silent
from toolchain.resolve import ResolvedTool, resolve
from toolchain.settings import Settings
from toolchain.store import ArchiveOrigin, Provenance, ToolStore

PINNED = [pin for pin in tool_pins().values() if pin.archive is not None]
KEY = SigningKey("vendor")


@dataclasses.dataclass
class Checkout:
    """A checkout with the vendor's key, an empty cache, and no lock file yet."""

    folder: Path
    vendors: Vendors
    sources: tuple[str, ...] = ("archive",)
    mirror: str | None = None
    path: str = ""

    @property
    def lock_file(self) -> Path:
        return self.folder / "archives.lock"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def settings(self) -> Settings:
        """Those of one command."""
        return Settings(
            cache=self.cache,
            sources=self.sources,
            lock_file=self.lock_file,
            mirror=self.mirror,
            path=self.path,
            vendors=vendors_module.Vendors(archive_of(pin) for pin in PINNED),
        )

    def pin(self, name: str, key: SigningKey = KEY) -> ToolPin:
        """The pin of a tool, with a key of the test in place of the vendor's."""
        pin = tool_pin(name)
        archive = archive_of(pin)
        assert archive.sums is not None
        if archive.sums.signature is None:
            return pin
        file = self.folder / "vendor.asc"
        file.write_text(key.public)
        signature = dataclasses.replace(archive.sums.signature, key=file)
        sums = dataclasses.replace(archive.sums, signature=signature)
        return dataclasses.replace(pin, archive=dataclasses.replace(archive, sums=sums))

    def get(
        self, name: str = "consul", *, key: SigningKey = KEY, progress: Progress = silent
    ) -> ResolvedTool:
        return resolve(self.pin(name, key), self.settings, Step(name, progress))

    def refused(self, name: str = "consul", *, key: SigningKey = KEY) -> ToolchainError:
        """The refusal of a tool, of which nothing was kept."""
        with pytest.raises(ToolchainError) as refusal:
            self.get(name, key=key)
        assert files_under(self.cache) == set()
        assert not self.lock_file.exists()
        return refusal.value


def archive_of(pin: ToolPin) -> ArchivePin:
    assert pin.archive is not None
    return pin.archive


def signature_of(archive: ArchivePin) -> str:
    """Where its sums' signature is served."""
    assert archive.sums is not None
    assert archive.sums.signature is not None
    return place(archive.beside(archive.sums.signature.file_name))


def publish(checkout: Checkout, name: str, key: SigningKey = KEY, version: str = "") -> ArchivePin:
    pin = tool_pin(name)
    binary = program(version or pin.version).encode()
    return checkout.vendors.release(pin, dict.fromkeys(pin.binaries, binary), key)


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendors]:
    with playing_vendors(tmp_path_factory.mktemp("vendors"), "127.90.0.1") as vendors:
        yield vendors


@pytest.fixture
def checkout(played: Vendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    for part in (played.files, played.redirects, played.cut, played.slow):
        part.clear()
    played.asked.clear()
    played.connected.clear()
    for name, value in played.variables.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Checkout(folder=tmp_path, vendors=played)


@pytest.mark.parametrize("name", [pin.name for pin in PINNED])
def test_a_good_archive_of_each_vendor_is_used_and_its_sum_recorded(
    checkout: Checkout, name: str
) -> None:
    archive = publish(checkout, name)
    content = checkout.vendors.files[place(archive.address)]
    assert isinstance(content, bytes)
    tool = checkout.get(name)
    assert (tool.source, tool.path.read_text()) == ("archive", program(tool.version))
    assert checkout.lock_file.read_text() == f"{sha256(content)}  {archive.file_name}\n"


def test_a_release_of_pulumi_keeps_its_language_host_beside_it(checkout: Checkout) -> None:
    pin = tool_pin("pulumi")
    host = b"\x7fELF"
    binaries = {"pulumi": program(pin.version).encode(), "pulumi-language-python": host}
    checkout.vendors.release(pin, binaries, KEY)
    path = checkout.get("pulumi").path
    assert path.resolve().with_name("pulumi-language-python").read_bytes() == host


@pytest.mark.parametrize(
    ("name", "proof", "host", "signer"),
    [
        (
            "consul",
            f"signed by {KEY.fingerprint[-8:]}",
            "releases.hashicorp.com",
            KEY.fingerprint,
        ),
        ("prometheus", "checksum by HTTPS", "github.com", None),
    ],
    ids=["signed", "published"],  # the key is another one in each process
)
def test_the_proof_of_an_archive_is_kept_with_it(
    checkout: Checkout, name: str, proof: str, host: str, signer: str | None
) -> None:
    content = checkout.vendors.files[place(publish(checkout, name).address)]
    assert isinstance(content, bytes)
    checkout.get(name)
    pin, store = tool_pin(name), ToolStore(checkout.cache)
    origin = ArchiveOrigin(sha256=sha256(content), host=host, signer=signer)
    assert store.in_use(pin, frozenset(store.archives(pin))) == Provenance(
        source="archive", proof=proof, archive=origin
    )


def test_a_corrupt_archive_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    content = checkout.vendors.files[place(archive.address)]
    assert isinstance(content, bytes)
    checkout.vendors.files[place(archive.address)] = content[:-1] + b"?"
    refusal = checkout.refused()
    assert f"{archive.address} has SHA-256" in refusal.message
    assert f"expected {sha256(content)}" in refusal.message
    assert "SLIPWAY_TOOL_SOURCES=path,wheel,module" in refusal.fix


def test_an_archive_that_the_vendor_has_cut_short_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "prometheus")
    content = checkout.vendors.files[place(archive.address)]
    assert isinstance(content, bytes)
    checkout.vendors.files[place(archive.address)] = content[: len(content) // 2]
    assert "expected" in checkout.refused("prometheus").message


def test_an_archive_that_always_breaks_off_is_not_used(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    checkout.vendors.cut[place(archive.address)] = 99
    refusal = checkout.refused()
    assert "peer closed connection" in refusal.message
    assert "docs/tools.md" in refusal.fix
    assert checkout.vendors.asked.count(place(archive.address)) == 3


def test_sums_that_were_changed_after_they_were_signed_are_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    assert archive.sums is not None
    other = f"{'0' * 64}  {archive.file_name}\n"
    checkout.vendors.files[place(archive.beside(archive.sums.file_name))] = other.encode()
    refusal = checkout.refused()
    assert "SHA256SUMS.sig proves nothing" in refusal.message
    assert "has not signed this file" in refusal.message
    assert place(archive.address) not in checkout.vendors.asked


def test_a_signature_that_is_none_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    checkout.vendors.files[signature_of(archive)] = b"<html>"
    assert "is not an OpenPGP signature" in checkout.refused().message


def test_a_filters_page_in_place_of_sums_and_signature_is_no_archive(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    for file in checkout.vendors.files:
        checkout.vendors.files[file] = b"<html>blocked</html>"
    checkout.sources, checkout.path = ("archive", "module"), str(put_builds(checkout.folder))
    said: list[str] = []

    def progress(*told: object) -> None:
        said.append(str(told))

    assert checkout.get(progress=progress).source == "built"
    assert any(f"SHA256SUMS does not list {archive.file_name}" in told for told in said)


def test_sums_without_their_signature_are_not_used(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    del checkout.vendors.files[signature_of(archive)]
    assert "SHA256SUMS.sig answers 404" in checkout.refused().message


def test_a_signature_by_an_unknown_key_is_refused(checkout: Checkout) -> None:
    stranger = SigningKey("stranger")
    publish(checkout, "consul", key=stranger)
    refusal = checkout.refused()
    assert "not by vendor <security@vendor.test>" in refusal.message
    assert KEY.fingerprint in refusal.message
    assert "vendor.asc" in refusal.fix


def test_a_signature_by_a_key_that_had_expired_is_refused(checkout: Checkout) -> None:
    key = SigningKey("late")
    key.expire()
    publish(checkout, "consul", key=key)
    refusal = checkout.refused(key=key)
    assert f"late <security@late.test> ({key.fingerprint})" in refusal.message
    assert "expired on " in refusal.message
    assert "if the vendor has a newer key, put it into" in refusal.fix


def test_what_a_key_has_signed_before_it_expired_stays_proven(checkout: Checkout) -> None:
    key = SigningKey("punctual")
    publish(checkout, "consul", key=key)
    time.sleep(1.1)  # signatures and keys know whole seconds only
    key.expire()
    assert checkout.get(key=key).source == "archive"


def test_a_redirect_to_plain_http_is_refused_and_not_followed(checkout: Checkout) -> None:
    archive = publish(checkout, "prometheus")
    there = place(archive.address)
    checkout.vendors.files["mirror.test/x"] = checkout.vendors.files[there]
    checkout.vendors.redirects[there] = f"{checkout.vendors.address}/x"
    refusal = checkout.refused("prometheus")
    assert f"{archive.address} redirects to plain HTTP, {checkout.vendors.address}/x" in (
        refusal.message
    )
    assert "find out what answers" in refusal.fix
    assert not any(asked.endswith("/x") for asked in checkout.vendors.asked)


def test_a_redirect_to_another_host_by_https_is_followed(checkout: Checkout) -> None:
    archive = publish(checkout, "prometheus")
    content = checkout.vendors.files.pop(place(archive.address))
    checkout.vendors.redirects[place(archive.address)] = "https://get.pulumi.com/elsewhere"
    checkout.vendors.files["get.pulumi.com/elsewhere"] = content
    assert checkout.get("prometheus").source == "archive"


def test_a_slow_server_is_waited_for_and_shows_progress(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = publish(checkout, "consul")
    seen = threading.Event()
    checkout.vendors.slow[place(archive.address)] = seen

    def tick(step: Step, detail: str = "") -> None:
        if step.name == "consul" and "MB" in detail:
            seen.set()

    monkeypatch.setattr(Step, "tick", tick)
    assert checkout.get().source == "archive"
    assert seen.is_set()


def test_the_missing_half_of_the_archives_is_built_and_the_other_half_used(
    checkout: Checkout,
) -> None:
    for name in ("consul", "nomad"):
        publish(checkout, name)
    checkout.sources, checkout.path = ("archive", "module"), str(put_builds(checkout.folder))
    said: list[str] = []

    def progress(*told: object) -> None:
        said.append(str(told))

    names = ("consul", "nomad", "nomad-autoscaler", "prometheus")
    used = {name: checkout.get(name, progress=progress).source for name in names}
    assert list(used.values()) == ["archive", "archive", "built", "built"]
    assert len(checkout.lock_file.read_text().splitlines()) == 2
    (reason,) = [each for each in said if "no archive" in each and "prometheus" in each]
    assert "sha256sums.txt answers 404" in reason


def test_vendors_are_reached_through_the_proxy(checkout: Checkout) -> None:
    publish(checkout, "consul")
    checkout.get()
    assert set(checkout.vendors.connected) == set(HOSTS)


def test_a_vendor_whose_certificate_is_not_trusted_is_as_good_as_silent(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(checkout, "consul")
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert "no answer from releases.hashicorp.com" in checkout.refused().message
    assert checkout.vendors.asked == []


def test_a_sum_that_differs_from_the_lock_file_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    recorded = f"{'0' * 64}  {archive.file_name}\n"
    checkout.lock_file.write_text(recorded)
    with pytest.raises(ToolchainError, match=f"recorded {'0' * 64}") as refusal:
        checkout.get()
    assert "remove its line from archives.lock" in refusal.value.fix
    assert place(archive.address) not in checkout.vendors.asked
    assert files_under(checkout.cache) == set()
    assert checkout.lock_file.read_text() == recorded


def test_a_lock_file_with_a_wrong_line_is_refused(checkout: Checkout) -> None:
    publish(checkout, "consul")
    checkout.lock_file.write_text("<<<<<<< ours\n")
    with pytest.raises(ToolchainError, match=r"archives\.lock: line 1: not a checksum line"):
        checkout.get()


def test_a_lock_file_with_two_sums_of_one_archive_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    checkout.get()
    with checkout.lock_file.open("a") as merged:
        merged.write(f"{'0' * 64}  {archive.file_name}\n")
    with pytest.raises(ToolchainError, match=r"archives\.lock: line 2: another sum for consul"):
        checkout.get()


def test_a_vendors_list_with_two_sums_of_one_archive_is_refused(checkout: Checkout) -> None:
    archive = publish(checkout, "prometheus")
    assert archive.sums is not None
    sums = place(archive.beside(archive.sums.file_name))
    listed = checkout.vendors.files[sums]
    assert isinstance(listed, bytes)
    checkout.vendors.files[sums] = listed + f"{'0' * 64}  {archive.file_name}\n".encode()
    refusal = checkout.refused("prometheus")
    assert "sha256sums.txt, line 2: another sum for prometheus" in refusal.message
    assert "SLIPWAY_TOOL_SOURCES=path,wheel,module" in refusal.fix


def test_runs_with_different_caches_write_the_lock_file_one_after_the_other(
    checkout: Checkout,
) -> None:
    def locks(cache: Path) -> ArchivesLock:
        return dataclasses.replace(checkout.settings, cache=cache).archives_lock

    waiting, names = threading.Event(), ("a.zip", "b.zip")
    first, second = (locks(checkout.folder / each) for each in ("one", "two"))
    first.record(names[0], "a" * 64, Step("first", silent))
    (guard,) = checkout.folder.glob(".slipway/*")

    def told(_name: str, state: str, *_: object) -> None:
        if state == "waiting":
            waiting.set()

    record = threading.Thread(target=second.record, args=(names[1], "b" * 64, Step("2", told)))
    with exclusive(guard, Step("held", silent)):
        record.start()
        assert waiting.wait(60)
        assert names[1] not in first.sums()
    record.join()
    assert list(second.sums()) == list(names)


def test_a_sum_that_is_recorded_is_not_written_again(checkout: Checkout) -> None:
    lock = checkout.settings.archives_lock
    lock.record("a.zip", "a" * 64, Step("lock", silent))
    written = checkout.lock_file.stat().st_ino
    lock.record("a.zip", "a" * 64, Step("lock", silent))
    assert checkout.lock_file.stat().st_ino == written


def test_sums_are_kept_in_the_form_of_sha256sum(checkout: Checkout) -> None:
    for name in ("prometheus", "consul", "nomad"):
        publish(checkout, name)
        checkout.get(name)
    lines = checkout.lock_file.read_text().splitlines()
    assert [line.split("  ")[1].partition("_")[0] for line in lines] == [
        "consul",
        "nomad",
        "prometheus-3.14.0.linux-amd64.tar.gz",
    ]


def test_what_another_checkout_has_proven_is_used_without_asking_the_vendor(
    checkout: Checkout,
) -> None:
    publish(checkout, "consul")
    checkout.get()
    recorded = checkout.lock_file.read_text()
    checkout.lock_file.unlink()  # a second checkout with the same cache
    checkout.vendors.connected.clear()
    assert checkout.get().source == "cached"
    assert checkout.vendors.connected == []
    assert checkout.lock_file.read_text() == recorded


def test_what_was_proven_by_another_key_is_proven_again(checkout: Checkout) -> None:
    publish(checkout, "consul")
    checkout.get()
    checkout.lock_file.unlink()
    new = SigningKey("successor")
    publish(checkout, "consul", key=new)
    assert checkout.get(key=new).source == "archive"


def test_what_came_from_a_mirror_is_not_proven_by_the_vendor(checkout: Checkout) -> None:
    publish(checkout, "prometheus")
    for file, content in list(checkout.vendors.files.items()):
        checkout.vendors.files[f"get.pulumi.com/{file.rpartition('/')[2]}"] = content
    pin, store = tool_pin("prometheus"), ToolStore(checkout.cache)
    proofs = []
    for checkout.mirror in ("https://get.pulumi.com", None):
        assert checkout.get("prometheus").source == "archive"
        kept = store.in_use(pin, frozenset(store.archives(pin)))
        proofs.append(kept and kept.proof)
        checkout.lock_file.unlink()
    assert proofs == ["checksum by HTTPS from get.pulumi.com", "checksum by HTTPS"]


def test_a_kept_archive_has_to_have_the_whole_sum(checkout: Checkout) -> None:
    publish(checkout, "consul")
    file = checkout.get().path.with_name("provenance.json")
    recorded = checkout.lock_file.read_text().split()[0]
    file.write_text(file.read_text().replace(recorded, recorded[:12] + "0" * 52))
    assert checkout.get().source == "archive"


def test_what_another_checkout_has_proven_is_not_used_against_the_lock_file(
    checkout: Checkout,
) -> None:
    archive = publish(checkout, "consul")
    checkout.get()
    checkout.lock_file.write_text(f"{'0' * 64}  {archive.file_name}\n")
    with pytest.raises(ToolchainError, match="recorded"):
        checkout.get()


def test_a_mirror_has_the_vendors_sums_under_their_own_names(checkout: Checkout) -> None:
    archive = publish(checkout, "consul")
    for file, content in list(checkout.vendors.files.items()):
        checkout.vendors.files[f"127.90.0.1/{file.rpartition('/')[2]}"] = content
    checkout.mirror = checkout.vendors.address
    assert checkout.get().source == "archive"
    assert checkout.vendors.connected == []
    assert checkout.lock_file.read_text().endswith(f"  {archive.file_name}\n")


def test_sums_that_are_neither_signed_nor_from_https_prove_nothing(checkout: Checkout) -> None:
    publish(checkout, "prometheus")
    checkout.mirror = checkout.vendors.address
    assert "SLIPWAY_MIRROR_CHECKSUMS has to name" in checkout.refused("prometheus").message
    assert checkout.vendors.asked == []


def test_a_mirror_without_https_serves_what_the_lock_file_has_the_sum_of(
    checkout: Checkout,
) -> None:
    archive = publish(checkout, "prometheus")
    content = checkout.vendors.files[place(archive.address)]
    assert isinstance(content, bytes)
    checkout.lock_file.write_text(f"{sha256(content)}  {archive.file_name}\n")
    there = f"127.90.0.1/{archive.file_name}"
    checkout.vendors.files[there] = content[:-1] + b"?"
    checkout.mirror = checkout.vendors.address
    with pytest.raises(ToolchainError, match=f"expected {sha256(content)}"):
        checkout.get("prometheus")
    checkout.vendors.files[there] = content
    assert checkout.get("prometheus").source == "archive"
    pin, store = tool_pin("prometheus"), ToolStore(checkout.cache)
    kept = store.in_use(pin, frozenset(store.archives(pin)))
    assert kept is not None
    assert kept.proof == "archives.lock"


@pytest.mark.parametrize("served", [(), ("_SHA256SUMS",)])
def test_a_mirror_without_signed_sums_serves_what_the_lock_file_has_the_sum_of(
    checkout: Checkout, served: tuple[str, ...]
) -> None:
    archive = publish(checkout, "consul")
    for file, content in list(checkout.vendors.files.items()):
        if file.endswith((archive.file_name, *served)):
            checkout.vendors.files[f"get.pulumi.com/{file.rpartition('/')[2]}"] = content
    checkout.mirror = "https://get.pulumi.com"
    assert "answers 404" in checkout.refused().message
    content = checkout.vendors.files[place(archive.address)]
    assert isinstance(content, bytes)
    checkout.lock_file.write_text(f"{sha256(content)}  {archive.file_name}\n")
    assert checkout.get().source == "archive"


def test_silent_vendors_are_named_in_one_line_with_the_minutes_of_the_builds(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.90.0.2:9")  # nobody listens there
    checkout.sources = ("path", "archive", "wheel", "module")
    said: list[tuple[object, ...]] = []

    def progress(*told: object) -> None:
        said.append(told)

    say_what_is_built(tool_pins().values(), checkout.settings, progress)
    ((name, state, _, detail),) = said
    assert (name, state) == ("archives", "failed")
    assert detail == (
        "no answer from get.pulumi.com, github.com and releases.hashicorp.com; consul, nomad, "
        "nomad-autoscaler, prometheus and pulumi are built here, in about 17 min on two cores"
    )


def test_a_vendor_that_takes_the_connection_and_says_nothing_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.90.0.1", 0)) as mute:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.90.0.1:{mute.getsockname()[1]}")
        consul = archive_of(tool_pin("consul"))
        assert vendors_module.Vendors([consul]).silent(consul) == ["releases.hashicorp.com"]


def test_a_proxy_that_is_not_understood_leaves_the_vendors_silent(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(checkout, "consul")
    monkeypatch.setenv("HTTPS_PROXY", "carrier-pigeon://127.90.0.1")
    assert "no answer from releases.hashicorp.com" in checkout.refused().message
    checkout.mirror = "https://mirror.test"
    assert "set by one of HTTPS_PROXY" in checkout.refused().message


def test_pulumi_is_built_where_its_plugins_cannot_be_downloaded(checkout: Checkout) -> None:
    publish(checkout, "pulumi")
    checkout.vendors.refused.add("get.pulumi.com")
    try:
        assert "no answer from get.pulumi.com" in checkout.refused("pulumi").message
    finally:
        checkout.vendors.refused.clear()


def test_a_machine_that_has_every_tool_asks_nobody(checkout: Checkout) -> None:
    publish(checkout, "consul")
    checkout.get()
    checkout.vendors.connected.clear()
    say_what_is_built([checkout.pin("consul")], checkout.settings)
    assert checkout.get().source == "cached"
    assert checkout.vendors.connected == []


def test_every_vendor_is_asked_once_in_a_command(checkout: Checkout) -> None:
    settings = checkout.settings
    for name in ("consul", "nomad", "prometheus", "consul"):
        assert settings.vendors.silent(archive_of(tool_pin(name))) == []
    assert sorted(checkout.vendors.connected) == sorted(HOSTS)


def put_builds(folder: Path) -> Path:
    """A folder with a go command that builds each tool in its pinned version."""
    cases = "".join(
        f"*/{name}) names='{' '.join(pin.binaries)}'; version={pin.version};; "
        for name, pin in tool_pins().items()
    )
    made = 'printf \'#!/bin/sh\\necho "x v%s"\\n\' $version > "$out$name"; chmod 755 "$out$name"'
    build = f'case "$PWD" in {cases} esac; for name in $names; do {made}; done'
    return put_go(folder / "bin", build=build).parent
