from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from slipway.config.artifacts import (
    ENTRYPOINTS,
    REQUIREMENTS,
    SERVICES,
    SHARED,
    SHARING,
    SIMULATOR_PROFILES,
    TOOL_PINS,
)
from slipway.config.document import read_document
from slipway.config.errors import ConfigError
from slipway.config.files import file_of_host
from slipway.inputs import load_inputs, load_inputs_without_certificate
from tests.public_certificates import PublicAuthority, put
from tests.unit.certificates.own_authorities import made
from tests.unit.config.checkout import ROOT, Checkout


@pytest.fixture
def whole(tmp_path: Path) -> Checkout:
    """A checkout with everything a plan needs."""
    checkout = Checkout(tmp_path)
    shutil.copytree(ROOT / "catalog", checkout.root / "catalog")
    contents = dict.fromkeys(REQUIREMENTS.values(), "")
    contents |= {f"services/{service}/program.py": "" for service in SERVICES}
    contents |= {f"services/{service}/{program}": "" for service, program in ENTRYPOINTS.items()}
    contents[TOOL_PINS] = json.dumps({"tools": {"envoy": {"version": "1.40.0"}}})
    contents[SIMULATOR_PROFILES] = json.dumps({"profiles": {}})
    for name, text in contents.items():
        path = checkout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (checkout.root / "services" / SHARED).mkdir()
    for service in SHARING:
        (checkout.root / "services" / service / SHARED).symlink_to(Path("..", SHARED))
    return checkout


def test_only_models_the_environment_names_are_deployed(whole: Checkout) -> None:
    text = (whole.root / "models/smollm2.yaml").read_text()
    (whole.root / "models/spare.yaml").write_text(text.replace("name: smollm2", "name: spare"))
    assert load_inputs(whole.root, "dev").models.keys() == {"smollm2"}


def test_the_file_and_pulumis_values_give_the_same_inputs(whole: Checkout) -> None:
    values = read_document(whole.root / "Pulumi.dev.yaml", source="x").values["config"]
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }
    from_file = load_inputs(whole.root, "dev")
    from_pulumi = load_inputs(whole.root, "dev", values=texts)
    assert from_pulumi.environment.settings == from_file.environment.settings
    assert from_pulumi.models == from_file.models
    assert from_pulumi.artifacts == from_file.artifacts


def test_mistakes_of_the_environment_and_of_models_come_together(whole: Checkout) -> None:
    whole.edit("Pulumi.dev.yaml", "nodes: 2", "nodes: 0")
    whole.edit("models/smollm2.yaml", "kind: vllm", "kind: vlm")
    with pytest.raises(ConfigError) as caught:
        load_inputs(whole.root, "dev")
    sources = [problem.source for problem in caught.value.problems]
    assert sources == ["Pulumi.dev.yaml", "models/smollm2.yaml"]


def test_models_are_read_from_the_folder_the_environment_names(whole: Checkout) -> None:
    (whole.root / "models").rename(whole.root / "elsewhere")
    whole.edit(
        "Pulumi.dev.yaml", "slipway:target", "slipway:models_dir: elsewhere\n  slipway:target"
    )
    inputs = load_inputs(whole.root, "dev")
    assert inputs.models["smollm2"].origin.source == "elsewhere/smollm2.yaml"


def test_a_checkout_without_catalog_is_refused(whole: Checkout) -> None:
    shutil.rmtree(whole.root / "catalog")
    with pytest.raises(ConfigError) as caught:
        load_inputs(whole.root, "dev")
    assert caught.value.problems[0].source == "catalog/accelerators.yaml"


def test_paths_in_messages_are_relative_to_the_checkout(whole: Checkout, tmp_path: Path) -> None:
    (whole.root / "models/bad.yaml").write_text("name: [")
    with pytest.raises(ConfigError) as caught:
        load_inputs(whole.root, "dev")
    assert str(tmp_path) not in str(caught.value)


def test_pulumis_program_reads_the_inventory_too(whole: Checkout) -> None:
    shape = {"kind": "metal", "memory": "64GiB", "cpu": 32}
    values = {
        "slipway:target": "metal",
        "slipway:network": {"cidr": "10.40.0.0/16"},
        "slipway:inventory": "hosts.yaml",
        "slipway:pools": {"cpu": shape, "edge": shape},
        "slipway:models": {},
    }
    (whole.root / "Pulumi.own.yaml").write_text(json.dumps({"config": values}))
    (whole.root / "hosts.yaml").write_text(
        "hosts:\n"
        "  - {name: rack1, address: 10.40.0.11, role: server}\n"
        "  - {name: rack2, address: 10.40.0.21, pool: cpu}\n"
        "  - {name: rack3, address: 10.40.0.31, pool: edge}\n"
    )
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }
    from_file = load_inputs(whole.root, "own")
    from_pulumi = load_inputs(whole.root, "own", values=texts)
    assert from_pulumi.environment.settings == from_file.environment.settings
    listed = from_pulumi.environment.settings.hosts
    assert [host.name for host in listed] == ["rack1", "rack2", "rack3"]
    assert file_of_host(whole.root, "own", "rack2") == "hosts.yaml"


def test_a_host_of_the_stack_file_is_found_there() -> None:
    assert file_of_host(ROOT, "hosts", "worker-0") == "Pulumi.hosts.yaml"


def test_the_gateways_certificate_is_read_only_for_what_concerns_its_clients(
    whole: Checkout,
) -> None:
    text, authority = "slipway:target: dev", PublicAuthority()
    shown = "{certificate: {cert: tls/cert.pem, key: tls/key.pem}}"
    whole.edit("Pulumi.dev.yaml", text, f"{text}\n  slipway:gateway: {shown}")
    assert load_inputs_without_certificate(whole.root, "dev").certificate is None
    with pytest.raises(ConfigError, match=r"gateway\.certificate\.cert: does not exist"):
        load_inputs(whole.root, "dev")
    issued = authority.issue()
    put(whole.root / "tls", cert=authority.chain(issued), key=issued.key_pem)
    found = load_inputs(whole.root, "dev").certificate
    assert found is not None
    assert found.fingerprint == issued.fingerprint


def with_own_authority(checkout: Checkout, entry: str) -> None:
    text = "slipway:target: dev"
    checkout.edit(
        "Pulumi.dev.yaml", text, f"{text}\n  slipway:security: {{authorities: [{entry}]}}"
    )


def test_an_authority_of_the_user_is_read_from_the_checkout(whole: Checkout) -> None:
    own = made()
    own.write(whole.root)
    with_own_authority(whole, "{cert: ca.pem, key: ca-key.pem}")
    inputs = load_inputs(whole.root, "dev")
    assert inputs.own_authorities[0].key == own.key_pem
    assert (inputs.without_key, inputs.not_valid) == ([], [])


def test_a_missing_file_of_an_authority_is_found_at_its_line(whole: Checkout) -> None:
    with_own_authority(whole, "{cert: ca.pem, key: ca-key.pem}")
    with pytest.raises(ConfigError) as caught:
        load_inputs(whole.root, "dev")
    assert str(caught.value) == (
        'Pulumi.dev.yaml:3: slipway:security.authorities.0.cert: does not exist (found "ca.pem")\n'
        "    fix: correct the path, or put the file there"
    )


def test_pulumi_hands_a_secret_key_to_its_program_only(whole: Checkout) -> None:
    own = made()
    own.write(whole.root)
    with_own_authority(whole, '{cert: ca.pem, key_secret: "pki:ca-key"}')
    whole.edit("Pulumi.dev.yaml", "config:", "config:\n  pki:ca-key: {secure: v1:abc}")
    seen = load_inputs(whole.root, "dev")
    assert (seen.own_authorities[0].key, seen.without_key) == ("", [])
    values = dict(read_document(whole.root / "Pulumi.dev.yaml", source="x").values["config"])
    decrypted = load_inputs(whole.root, "dev", values=values | {"pki:ca-key": own.key_pem})
    assert decrypted.own_authorities[0].key == own.key_pem


def test_only_the_authority_that_signs_must_be_able_to(whole: Checkout) -> None:
    made(days=-1).write(whole.root)
    with_own_authority(whole, "1, {cert: ca.pem}")
    inputs = load_inputs(whole.root, "dev")
    assert (inputs.without_key, inputs.not_valid) == ([], [])
    whole.edit("Pulumi.dev.yaml", "1, {cert: ca.pem}", "{cert: ca.pem}, 1")
    inputs = load_inputs(whole.root, "dev")
    assert [problem.message for problem in inputs.without_key] == ["signs, but has no private key"]
    assert "has expired" in str(inputs.not_valid[0])


@pytest.mark.parametrize(
    ("entry", "key", "said"),
    [
        ("0", "authorities.0", "must be at least 1"),
        ("x", "authorities.0", "must be a whole number"),
        ("{key: ca-key.pem}", "authorities.0.cert", "is required"),
        ("{cert: a.pem, keys: b}", "authorities.0.keys", "unknown key"),
        ("{cert: a.pem, key: b, key_variable: C}", "authorities.0", "has both `key` and"),
        ("{cert: a.pem, key_secret: ca-key}", "authorities.0.key_secret", "in another namespace"),
        ('{cert: a.pem, key_secret: "slipway:x"}', "authorities.0.key_secret", "another namespace"),
        ("{cert: a.pem, key_variable: a b}", "authorities.0.key_variable", "name of a variable"),
        ("{cert: a.pem}, {cert: a.pem}", "authorities", "lists the same authority twice"),
        ("1, 2, 3", "authorities", "must have at most 2 entries"),
        ("", "authorities", "must not be empty"),
    ],
)
def test_an_entry_that_is_no_authority_is_refused_by_its_key(
    whole: Checkout, entry: str, key: str, said: str
) -> None:
    with_own_authority(whole, entry)
    problem = whole.problem()
    assert problem.key == f"slipway:security.{key}"
    assert said in problem.message
