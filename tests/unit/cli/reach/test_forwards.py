"""What is forwarded, what programs are told of it, and with which command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema

from cli.reach import document, ssh
from cli.reach.document import forwarding_of, from_json
from cli.reach.forwards import VARIABLE, forwards_of, variables_of
from cli.reach.shell import shell_exports
from cli.reach.ssh import forwarding, known_hosts
from slipway.plan.platform import PlatformPlan, SshHost
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT, dev_plan, hosts_inputs

SCHEMA = json.loads((ROOT / "schemas/forwards.schema.json").read_text())
HOST = SshHost(address="10.77.0.11", port=22, user="root", host_key="ssh-ed25519 AAAA")
JUMP = SshHost(address="bastion", port=2222, user="ops", host_key="ssh-ed25519 BBBB")


def planned() -> PlatformPlan:
    """With the public key of every host."""
    servers = [{"name": f"server-{k}", "address": f"10.77.0.1{k}"} for k in range(3)]
    plan = make_plan(hosts_inputs(servers=3, server_hosts=servers))
    assert plan.ssh is not None
    hosts = {
        name: replace(host, host_key="ssh-ed25519 AAAA") for name, host in plan.ssh.hosts.items()
    }
    return replace(plan, ssh=replace(plan.ssh, hosts=hosts))


def test_the_apis_lead_to_every_server_and_the_rest_to_its_host() -> None:
    plan = planned()
    found = {
        each.local.port: {target.host for target in each.targets} for each in forwards_of(plan)
    }
    servers = {server.address for server in plan.servers}
    edge = {plan.gateway.envoys[0].listener.host}
    assert found == {
        8501: servers, 4646: servers, 9090: edge, 8080: edge, 9901: edge, 18001: edge,
    }  # fmt: skip


def test_the_control_plane_of_a_host_that_leaves_is_forwarded_until_it_is_gone() -> None:
    plan = planned()
    xds, own = plan.gateway.envoys[0].xds_http, plan.operator.envoys[0].xds_http
    forwards = json.loads(variables_of(plan, ["10.77.0.32", "10.77.0.33"])[VARIABLE])["forwards"]
    ways = [forwards[f"{address}:{xds.port}"] for address in ("10.77.0.32", "10.77.0.33")]
    assert {way["server_name"] for way in ways} == {own.server_name}
    assert len({way["at"] for way in (*ways, forwards[xds.authority])}) == 3
    assert plan.ssh is not None
    targets = [each.targets for each in forwarding_of(plan, plan.ssh, ["10.77.0.32"]).locals]
    assert (f"10.77.0.32:{xds.port}",) in targets


def planned_with_edges() -> PlatformPlan:
    edges = [{"name": f"edge-{k}", "address": f"10.77.0.3{k}"} for k in range(3)]
    room = {"kind": "metal", "memory": "16GiB", "cpu": 8}
    worker = {"name": "worker-0", "address": "10.77.0.21"}
    pools = {"cpu": {**room, "hosts": [worker]}, "edge": {**room, "hosts": edges}}
    return make_plan(hosts_inputs(pools=pools))


def test_the_gateway_is_asked_through_any_envoy_and_each_one_is_found_by_its_own_address() -> None:
    plan = planned_with_edges()
    targets = {each.local: each.targets for each in forwards_of(plan)}
    first, *others = zip(plan.operator.envoys, plan.gateway.envoys, strict=True)
    listeners = tuple(envoy.listener for envoy in plan.gateway.envoys)
    assert len(listeners) == 3
    assert targets[first[0].listener] == listeners
    assert targets[first[0].metrics] == (first[1].metrics,)
    assert targets[first[0].xds_http] == (first[1].xds_http,)
    ways = json.loads(variables_of(plan)[VARIABLE])["forwards"]
    for local, envoy in others:
        assert targets[local.listener] == (envoy.listener,)
        assert ways[envoy.listener.authority]["at"] == local.listener.authority


def test_only_servers_of_clusters_are_asked_for_a_leader() -> None:
    plan = planned_with_edges()
    led = {each.local for each in forwards_of(plan) if each.led}
    assert led == {plan.operator.consul, plan.operator.nomad}


def test_nothing_is_forwarded_where_all_hosts_are_this_machine() -> None:
    assert forwards_of(dev_plan()) == ()
    assert variables_of(dev_plan()) == {}


def test_programs_are_told_where_to_connect_and_what_to_verify() -> None:
    plan = planned()
    variables = variables_of(plan)
    document = json.loads(variables[VARIABLE])
    jsonschema.validate(document, SCHEMA)
    xds, local = plan.gateway.envoys[0].xds_http.authority, plan.operator.envoys[0].xds_http
    assert document["forwards"][xds] == {"at": local.authority, "server_name": "xds.hosts.slipway"}
    assert document["forwards"][plan.operator.nomad.authority] == {
        "at": plan.operator.nomad.authority,
        "server_name": "server.global.nomad",
    }
    assert variables["CONSUL_TLS_SERVER_NAME"] == "server.hosts.consul"


def test_commands_with_the_same_files_share_a_keeper() -> None:
    plan = planned()
    assert plan.ssh is not None
    wanted = forwarding_of(plan, plan.ssh)
    assert from_json(wanted.to_json()) == wanted
    assert forwarding_of(plan, plan.ssh).digest == wanted.digest
    jumped = forwarding_of(plan, replace(plan.ssh, jump=JUMP))
    assert jumped.digest != wanted.digest
    assert from_json(jumped.to_json()) == jumped


def test_one_that_does_not_know_the_gateways_certificate_shares_it_too() -> None:
    plan = planned()
    assert plan.ssh is not None
    (envoy,) = plan.operator.envoys
    shown = replace(envoy.listener, scheme="https", server_name="llm.example.com")
    operator = replace(plan.operator, envoys=(replace(envoy, listener=shown),))
    knowing = forwarding_of(replace(plan, operator=operator), plan.ssh)
    assert knowing != forwarding_of(plan, plan.ssh)
    assert knowing.digest == forwarding_of(plan, plan.ssh).digest


def test_only_servers_with_a_known_key_are_used() -> None:
    plan = planned()
    assert plan.ssh is not None
    assert list(forwarding_of(plan, plan.ssh).hosts) == ["server-0", "server-1", "server-2"]
    unknown = {**plan.ssh.hosts, "server-0": replace(plan.ssh.hosts["server-0"], host_key="")}
    new = replace(plan.ssh, hosts=unknown)
    assert list(forwarding_of(plan, new).hosts) == ["server-1", "server-2"]
    assert not forwarding_of(plan, replace(new, jump=replace(JUMP, host_key=""))).hosts


def test_ssh_forwards_with_pinned_keys_and_notices_a_dead_host() -> None:
    command = forwarding(HOST, None, Path("/k"), {Path("/s/0"): "10.77.0.12:4646"})
    assert command[:3] == ["ssh", "-N", "-T"]
    assert command[-5:] == ["-L", "/s/0:10.77.0.12:4646", "-p", "22", "root@10.77.0.11"]
    for option in (
        "StrictHostKeyChecking=yes", "UserKnownHostsFile=/k", "GlobalKnownHostsFile=/dev/null",
        "BatchMode=yes", "ServerAliveInterval=1", "ServerAliveCountMax=4",
        "ExitOnForwardFailure=yes",
    ):  # fmt: skip
        assert option in command
    assert not any("ProxyCommand" in part for part in command)
    assert known_hosts(HOST, None) == "10.77.0.11 ssh-ed25519 AAAA\n"


def test_a_jump_host_is_pinned_too() -> None:
    command = forwarding(HOST, JUMP, Path("/k"), {})
    (proxy,) = (part for part in command if part.startswith("ProxyCommand="))
    assert "UserKnownHostsFile=/k" in proxy
    assert "-W '[%h]:%p' -p 2222 ops@bastion" in proxy
    assert known_hosts(HOST, JUMP).splitlines()[1] == "[bastion]:2222 ssh-ed25519 BBBB"


def test_a_shell_reads_the_tokens_from_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    (folder / "tokens").mkdir(parents=True)
    (folder / "tokens/nomad").write_text("a secret")
    asked = planned().operator
    text = shell_exports(asked.consul.url, asked.nomad.url, folder)
    assert "a secret" not in text
    assert f"export NOMAD_TOKEN=\"$(cat '{folder}/tokens/nomad')\"\n" in text
    assert f"export NOMAD_ADDR=https://{planned().operator.nomad.authority}\n" in text


def test_another_host_takes_over_before_providers_give_up_a_tls_handshake() -> None:
    assert ssh.SILENCE_S * ssh.SILENCES + document.HEAD_START_S < 10
