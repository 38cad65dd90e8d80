"""What an introduction lets a host do, and what is left of the host: real Consul and Nomad."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator

import pytest
from admission.introduction import Ids, forget_earlier
from admitted import NODE, POOL, AdmittedCluster
from cluster import JsonObject, running_cluster
from hangs import HANG_S
from program.http_json import Api, ApiError
from program.waiting import wait_until

NETWORK = "127.79.1."
# Nomad and Consul allow for clocks that differ by a minute.
LEEWAY_S = 60

pytestmark = pytest.mark.binaries


@pytest.fixture(scope="module")
def admitted() -> Iterator[AdmittedCluster]:
    with running_cluster(NETWORK, kind=AdmittedCluster) as cluster:
        yield cluster


@pytest.fixture
def nomad(admitted: AdmittedCluster) -> Api:
    return admitted.nomad(admitted.management["nomad"])


@pytest.fixture
def consul(admitted: AdmittedCluster) -> Api:
    return admitted.consul(admitted.management["consul"])


@pytest.fixture(scope="module")
def expired(admitted: AdmittedCluster) -> str:
    """An introduction that was valid for a second; used by the last test that needs it."""
    return admitted.introduction(ttl_s=1)


def log_in(cluster: AdmittedCluster, introduction: str, method: str = "consul-agents") -> str:
    wanted = {"AuthMethod": method, "BearerToken": introduction}
    return str(cluster.consul().post("/v1/acl/login", wanted)["SecretID"])


def join(cluster: AdmittedCluster, document: JsonObject | None = None) -> tuple[int, str]:
    done = cluster.program(
        "agents.py",
        "apply",
        document=document or cluster.golden(NODE),
        secrets=cluster.agent_secrets(NODE),
    )
    return done.returncode, done.stdout + done.stderr


def refused_by_nomad(cluster: AdmittedCluster, introduction: str | None) -> None:
    """Have the node's agents start with a token of Consul, so that the Nomad client alone is on
    trial, and wait for the servers' refusal."""
    document, secrets = cluster.golden(NODE), cluster.agent_secrets(NODE)
    del document["joining"]
    text = json.dumps(secrets).replace("@token@", cluster.management["consul"])
    client = cluster.folders.agent(NODE, "nomad") / "data/client"
    client.mkdir(parents=True, mode=0o700)
    if introduction is not None:
        (client / "intro_token.jwt").write_text(introduction)
    log = cluster.folders.logs / f"{NODE}-nomad.log"
    log.unlink(missing_ok=True)
    try:
        cluster.apply("agents.py", document, json.loads(text))
        wait_until(
            "the refusal",
            lambda: None if "Permission denied" in log.read_text() else "not yet",
            HANG_S,
        )
        assert cluster.nomad(cluster.management["nomad"]).get("/v1/nodes") == []
    finally:
        cluster.succeed("agents.py", "remove", document=document)
        cluster.forget()


def claims(introduction: str) -> JsonObject:
    payload = introduction.split(".")[1]
    content: JsonObject = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return content


def test_an_introduction_names_one_node_and_one_pool_and_soon_expires(
    admitted: AdmittedCluster, expired: str
) -> None:
    said = claims(admitted.introduction(ttl_s=900))
    assert (said["nomad_node_name"], said["nomad_node_pool"]) == (NODE, POOL)
    assert said["aud"] == "nomadproject.io"
    assert said["exp"] - said["iat"] == 900


def test_a_host_without_an_introduction_is_told_what_to_do(admitted: AdmittedCluster) -> None:
    code, said = join(admitted)
    assert code == 1
    assert "cpu-0 has no introduction, and has not joined before\nfix: slipway admit cpu-0" in said


def test_an_introduction_logs_in_by_no_other_method_and_none_that_was_changed_does(
    admitted: AdmittedCluster,
) -> None:
    introduction = admitted.introduction()
    with pytest.raises(ApiError, match="aud claim does not match"):
        log_in(admitted, introduction, "nomad-workloads")
    head, _, signature = introduction.split(".")
    others = json.dumps(claims(introduction) | {"nomad_node_name": "cpu-1"})
    changed = base64.urlsafe_b64encode(others.encode()).decode().rstrip("=")
    with pytest.raises(ApiError, match="signature"):
        log_in(admitted, f"{head}.{changed}.{signature}")


def test_a_log_in_gives_a_token_that_can_write_its_own_node_only(
    admitted: AdmittedCluster, consul: Api
) -> None:
    token = log_in(admitted, admitted.introduction(host="cpu-7"))
    agent = admitted.consul(token)
    entry = {"Address": f"{NETWORK}77"}
    agent.put("/v1/catalog/register", {"Node": "cpu-7", **entry})
    consul.put("/v1/catalog/deregister", {"Node": "cpu-7"})
    for other in ("cpu-8", "server-0", "cpu-70"):
        with pytest.raises(ApiError) as refused:
            agent.put("/v1/catalog/register", {"Node": other, **entry})
        assert refused.value.status == 403
    for service, path in ((None, "/v1/acl/tokens"), ("web", "/v1/agent/service/register")):
        with pytest.raises(ApiError) as refused:
            agent.get(path) if service is None else agent.put(path, {"Name": service})
        assert refused.value.status == 403


def test_nomad_refuses_a_client_without_an_introduction(admitted: AdmittedCluster) -> None:
    refused_by_nomad(admitted, None)


def test_nomad_refuses_a_client_with_the_introduction_of_another_node(
    admitted: AdmittedCluster,
) -> None:
    refused_by_nomad(admitted, admitted.introduction(host="cpu-1"))


def test_nomad_refuses_a_client_with_the_introduction_to_another_pool(
    admitted: AdmittedCluster,
) -> None:
    refused_by_nomad(admitted, admitted.introduction(pool="edge"))


def test_an_introduction_is_refused_after_its_time(admitted: AdmittedCluster, expired: str) -> None:
    time.sleep(max(0, claims(expired)["exp"] + LEEWAY_S + 1 - time.time()))
    with pytest.raises(ApiError, match="expired"):
        log_in(admitted, expired)
    refused_by_nomad(admitted, expired)
    admitted.bring(expired)
    code, said = join(admitted)
    assert code == 1
    assert "cpu-0 cannot log in to Consul" in said
    assert "fix: slipway admit cpu-0 brings a new one" in said


def test_an_introduced_host_joins_both_clusters_and_the_introduction_is_gone(
    admitted: AdmittedCluster, nomad: Api
) -> None:
    introduction = admitted.introduction()
    admitted.bring(introduction)
    code, said = join(admitted)
    assert code == 0, said
    admitted.apply("nomad_nodes.py", admitted.pool_gate(), admitted.operator("nomad"))
    assert [node["Name"] for node in nomad.get("/v1/nodes")] == [NODE]
    assert admitted.folders.joined(NODE).exists()
    folders = admitted.folders
    for folder in (folders.nodes / NODE, folders.logs, folders.scratch):
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert not [path for path in files if introduction.encode() in path.read_bytes()]


def test_what_its_agents_have_is_theirs_alone(admitted: AdmittedCluster, consul: Api) -> None:
    tokens = [token for token in consul.get("/v1/acl/tokens") if "AuthMethod" in token]
    own = [token for token in tokens if token["NodeIdentities"][0]["NodeName"] == NODE]
    assert {token["AuthMethod"] for token in own} == {"consul-agents", "nomad-clients"}
    for agent in ("consul", "nomad"):
        path = admitted.folders.agent(NODE, agent) / "secrets.json"
        assert path.stat().st_mode & 0o777 == 0o600
        assert "@token@" not in path.read_text()


def test_a_host_that_has_joined_needs_no_introduction_to_be_applied_or_started_again(
    admitted: AdmittedCluster, nomad: Api
) -> None:
    before = admitted.pids()
    code, said = join(admitted)
    assert code == 0, said
    assert admitted.pids() == before
    (node,) = nomad.get("/v1/nodes")
    admitted.succeed("agents.py", "stop")
    admitted.succeed("agents.py", "start")
    code, said = join(admitted)
    assert code == 0, said
    admitted.apply("nomad_nodes.py", admitted.pool_gate(), admitted.operator("nomad"))
    assert [each["ID"] for each in nomad.get("/v1/nodes")] == [node["ID"]]


def left_of(nomad: Api, consul: Api, host: str = NODE) -> dict[str, list[str]]:
    bound = [
        token
        for token in consul.get("/v1/acl/tokens")
        for identity in token.get("NodeIdentities") or []
        if identity["NodeName"] == host
    ]
    return {
        "Nomad": [node["ID"] for node in nomad.get("/v1/nodes") if node["Name"] == host],
        "members": [each["Name"] for each in consul.get("/v1/agent/members")].count(host) * [host],
        "catalog": [e["Node"] for e in consul.get("/v1/catalog/nodes") if e["Node"] == host],
        "tokens": [token["AccessorID"] for token in bound],
    }


def test_nothing_of_a_removed_host_is_left_in_the_clusters(
    admitted: AdmittedCluster, nomad: Api, consul: Api
) -> None:
    assert all(left_of(nomad, consul).values())
    admitted.succeed("agents.py", "remove", document=admitted.golden(NODE))
    admitted.forget()
    wait_until("the end", lambda: _listed(nomad, consul), HANG_S)


def test_a_host_that_died_is_forgotten_and_a_new_one_of_its_name_joins(
    admitted: AdmittedCluster, nomad: Api, consul: Api
) -> None:
    admitted.bring(admitted.introduction())
    code, said = join(admitted)
    assert code == 0, said
    own = ids(admitted)
    forget_earlier(nomad, consul, NODE, own)
    left = left_of(nomad, consul)
    assert left["Nomad"] == [own.nomad]
    assert left["members"] == [NODE]
    assert left["tokens"] == []  # it is given new ones
    die(admitted)
    forget_earlier(nomad, consul, NODE, Ids(nomad="", consul=""))
    wait_until("the end", lambda: _listed(nomad, consul), HANG_S)
    assert admitted.forget()  # a removal that has nothing to do
    admitted.bring(admitted.introduction())
    code, said = join(admitted)
    assert code == 0, said
    admitted.apply("nomad_nodes.py", admitted.pool_gate(), admitted.operator("nomad"))


def ids(cluster: AdmittedCluster) -> Ids:
    nomad, consul = (cluster.folders.agent(NODE, agent) / "data" for agent in ("nomad", "consul"))
    return Ids(
        nomad=(nomad / "client/client-id").read_text(),
        consul=(consul / "node-id").read_text().strip(),
    )


def die(cluster: AdmittedCluster) -> None:
    """The host's processes end, its disk is lost, and nobody is told."""
    document = cluster.golden(NODE)
    del document["departure"]
    cluster.succeed("agents.py", "remove", document=document)


def _listed(nomad: Api, consul: Api) -> str | None:
    left = {where: what for where, what in left_of(nomad, consul).items() if what}
    return str(left) if left else None
