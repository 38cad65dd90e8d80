"""Private keys and requests of certificates: the same in every preview, and each its owner's."""

from __future__ import annotations

from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from components.certificates import identities
from components.certificates.identities import Identity
from components.certificates.requests import private_key_pem, request_pem
from components.certificates.task import certificate_files, variable_items, variable_path
from tests.components.cluster_plan import cluster_plan

PLAN = cluster_plan()
SEED = "a seed of no cluster"
SERVER = identities.server(PLAN, PLAN.servers[0])
NODE = identities.node(PLAN, PLAN.pools[0].hosts[0])


def parsed(identity: Identity, seed: str = SEED) -> x509.CertificateSigningRequest:
    text = request_pem(seed, identity, organization="slipway dev")
    return x509.load_pem_x509_csr(text.encode())


def names_of(identity: Identity) -> x509.SubjectAlternativeName:
    extensions = parsed(identity).extensions
    return extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def public(seed: str, name: str) -> bytes:
    pem = private_key_pem(seed, Identity(name=name, common_name=name)).encode()
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@given(seed=st.text(min_size=1), name=st.text(min_size=1, max_size=40))
def test_a_key_depends_on_the_seed_and_on_the_name_only(seed: str, name: str) -> None:
    key = public(seed, name)
    assert key == public(seed, name)
    assert key != public(f"{seed}.", name)
    assert key != public(seed, f"{name}.")


def test_a_request_is_the_same_in_every_preview_and_signed_by_its_key() -> None:
    assert request_pem(SEED, NODE, organization="o") == request_pem(SEED, NODE, organization="o")
    assert parsed(NODE).is_signature_valid


def test_consul_and_nomad_accept_a_server_as_one_and_a_node_only_as_a_client() -> None:
    server, node = (names_of(each).get_values_for_type(x509.DNSName) for each in (SERVER, NODE))
    assert {"server.dev.consul", "server.global.nomad"} < {*server}
    assert {"client.dev.consul", "client.global.nomad"} < {*node}
    assert not [name for name in node if name.startswith("server")]


def test_a_host_is_verified_by_its_address() -> None:
    assert ip_address("127.77.0.1") in names_of(SERVER).get_values_for_type(x509.IPAddress)
    assert ip_address("127.77.0.16") in names_of(NODE).get_values_for_type(x509.IPAddress)


def test_whoever_serves_has_its_address_and_the_operator_serves_nobody() -> None:
    (envoy,) = PLAN.gateway.envoys
    for identity, host in (
        (identities.gateway(PLAN, envoy), envoy.metrics.host),
        (identities.control_plane(envoy), envoy.xds.host),
        (identities.prometheus(PLAN, "prometheus"), PLAN.monitoring.prometheus.host),
        (identities.autoscaler(PLAN, "nomad-autoscaler"), PLAN.autoscaling.autoscaler.host),
    ):
        addresses = names_of(identity).get_values_for_type(x509.IPAddress)
        assert (identity.serves, addresses) == (True, [ip_address(host)]), identity.name
    operator = identities.operator(PLAN)
    assert not operator.serves
    assert names_of(operator).get_values_for_type(x509.IPAddress) == []
    assert names_of(operator).get_values_for_type(x509.DNSName) == [PLAN.peers.operator]


def test_nodes_speak_for_replicas_and_servers_do_not() -> None:
    server, node = (names_of(each).get_values_for_type(x509.DNSName) for each in (SERVER, NODE))
    assert PLAN.peers.replica in node
    assert not [name for name in server if name.endswith(".slipway")]


def test_envoys_certificate_is_for_its_own_node_id() -> None:
    (envoy,) = PLAN.gateway.envoys
    (name,) = parsed(identities.gateway(PLAN, envoy)).subject.get_attributes_for_oid(
        x509.oid.NameOID.COMMON_NAME
    )
    assert name.value == identities.node_id(envoy.listener) == "gateway-127.77.0.32"


def test_identities_have_names_of_their_own() -> None:
    (envoy,) = PLAN.gateway.envoys
    found = [
        identities.authority(1),
        identities.operator(PLAN),
        identities.gateway(PLAN, envoy),
        identities.control_plane(envoy),
        identities.prometheus(PLAN, "prometheus"),
        identities.autoscaler(PLAN, "nomad-autoscaler"),
        SERVER,
        *(identities.node(PLAN, node) for pool in PLAN.pools for node in pool.hosts),
    ]
    assert len({identity.name for identity in found}) == len(found)


def test_the_files_of_a_job_are_the_items_of_its_own_variable() -> None:
    files = {"ca.pem": "an authority", "cert.pem": "a certificate", "key.pem": "a key"}
    items = variable_items(files)
    for file in certificate_files("xds", change_mode="restart"):
        (template,) = file.templates
        assert f"nomadVar `{variable_path('xds')}`" in template
        item = file.path.removeprefix("secrets/").removesuffix(".pem")
        assert f".{item}.Value" in template
        assert items[item] == files[f"{item}.pem"]
