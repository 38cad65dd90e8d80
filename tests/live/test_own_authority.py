"""An intermediate authority of the user's takes over from a generated one while streams go on."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.live.environments import SMALL_MODELS, Platform, copy_tree, write_environment
from tests.live.processes import processes_of
from tests.live.streaming import Load
from tests.unit.certificates.own_authorities import Made, intermediate
from tests.waiting import HANG_S, until

pytestmark = [pytest.mark.live, pytest.mark.apart]

ENTRY = {"cert": "company/ca.pem", "key": "company/ca-key.pem"}


@pytest.fixture(scope="module")
def own() -> Made:
    return intermediate()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, own: Made) -> Iterator[Platform]:
    """Signed by the generated authority; the user's is trusted."""
    checkout = tmp_path_factory.mktemp("secured")
    copy_tree(checkout)
    (checkout / "company").mkdir()
    own.write(checkout / "company")
    platform = Platform(checkout=checkout, name="secured", network="127.83.0")
    write_environment(
        checkout, platform.name, network=platform.network, models=SMALL_MODELS, nodes=1
    )
    put(platform, [1, ENTRY])
    try:
        yield dataclasses.replace(platform, first_up=platform.up())
    finally:
        platform.down()
        shutil.rmtree(checkout)


def put(platform: Platform, authorities: list[Any]) -> None:
    file = platform.checkout / f"Pulumi.{platform.name}.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["slipway:security"] = {"authorities": authorities}
    file.write_text(yaml.safe_dump(document))


def issuers(platform: Platform) -> set[str]:
    """Of what Consul, Nomad, Envoy's statistics, the control plane and Prometheus show; empty while
    one of them starts again."""
    host = platform.edge(1).removeprefix("https://").rpartition(":")[0]
    places = [(f"{platform.network}.1", port) for port in (8501, 4646, 4645)]
    places += [(f"{platform.network}.16", port) for port in (8501, 4646)]
    places += [(host, port) for port in (9090, 18001, 8081)]
    try:
        shown = [ssl.get_server_certificate(place, timeout=HANG_S).encode() for place in places]
    except OSError:
        return set()
    return {x509.load_pem_x509_certificate(each).issuer.rfc4514_string() for each in shown}


@pytest.mark.parametrize("authorities", [[ENTRY, 1], [ENTRY]], ids=["signs", "alone"])
def test_it_takes_over_and_loses_no_stream(secured: Platform, authorities: list[Any]) -> None:
    put(secured, authorities)

    async def change() -> Load:
        async with Load(secured.http, secured.grpc, ["sim-a"], streams_per_protocol=1) as load:
            await asyncio.to_thread(secured.up)
        return load

    load = asyncio.run(change())
    assert load.failures == []
    assert len(load.answers["sim-a"]) >= 5
    # Nomad writes what has changed into the files of tasks within some seconds.
    until(lambda: issuers(secured) == {"CN=issuing"}, "the new authority everywhere", pause_s=1)
    secured.slipway("preview", "--expect-no-changes")


def test_a_step_back_that_leaves_one_out_is_refused(secured: Platform) -> None:
    put(secured, [1])
    refused = secured.slipway("up", check=False)
    put(secured, [ENTRY])
    assert refused.returncode == 2
    assert "cannot change from [{cert: …} (SHA-256" in " ".join(refused.stderr.split())


def test_its_key_is_nowhere_in_plain(secured: Platform, own: Made) -> None:
    own_files = {secured.checkout / ENTRY["key"]}
    for line in own.key_pem.splitlines()[1:-1]:
        text = line.encode()
        found = {path for path in files_below(secured.checkout) if text in path.read_bytes()}
        assert found == own_files
        for process in processes_of(secured.run):
            for of_process in ("cmdline", "environ"):
                assert text not in Path(f"/proc/{process.pid}/{of_process}").read_bytes()


def files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path
