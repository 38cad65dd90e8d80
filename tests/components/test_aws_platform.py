"""The resources of environments on AWS, as a preview shows them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import jsonschema
import pulumi
import pytest

from components.aws_hosts.host_keys import private_key, public_key
from components.aws_machine.cloud_config import LIMIT_BYTES
from components.aws_pool.refresh import template_digest
from components.hosts.artifacts import of_replicas
from slipway.plan.platform import PlatformPlan
from stacks.platform import Platform
from stacks.recording import SECRET, SIGNATURE, UNKNOWN, Recording, Registration
from stacks.targets.aws import TARGET
from tests.components.aws_environments import VARIANTS, aws_plan, with_host_keys
from tests.components.recording import record
from tests.components.sdk_inputs import deviations
from tests.unit.config.checkout import ROOT

DELIVERY, BOOT, NODE, PUBLICATION, INTRODUCER, REFRESH, POOL_SECRET = (
    json.loads((ROOT / f"schemas/{name}.schema.json").read_text())
    for name in (
        "delivery",
        "boot",
        "node",
        "publication",
        "introducer",
        "node-refresh",
        "pool-secret",
    )
)
OBJECT, AUTO_SCALING = "aws:s3/bucketObjectv2:BucketObjectv2", "aws:autoscaling/group:Group"
HOOK = "aws:autoscaling/lifecycleHook:LifecycleHook"
TARGET_OF = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
INSTANCE, TEMPLATE = "aws:ec2/instance:Instance", "aws:ec2/launchTemplate:LaunchTemplate"
SUBNET, GROUP = "aws:ec2/subnet:Subnet", "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
POLICY, SECRET_VERSION = "aws:iam/rolePolicy:RolePolicy", "aws:secretsmanager/secretVersion"


def recorded(plan: PlatformPlan) -> Recording:
    return record(lambda: Platform("platform", plan, TARGET), preview=True)


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plan(variant: str) -> PlatformPlan:
    return aws_plan(variant)


@pytest.fixture(scope="module")
def preview(plan: PlatformPlan) -> Recording:
    return recorded(plan)


def of_aws(preview: Recording) -> list[Registration]:
    return [*preview.of_type("aws:"), *preview.of_type("pulumi:providers:aws")]


def test_every_input_is_one_that_the_sdk_declares(preview: Recording) -> None:
    assert [each for found in of_aws(preview) for each in deviations(found)] == []


def test_a_second_preview_is_the_same_to_the_byte(plan: PlatformPlan, preview: Recording) -> None:
    again = recorded(plan)
    assert [(each.urn, each.inputs) for each in preview.depth_first()] == [
        (each.urn, each.inputs) for each in again.depth_first()
    ]


def test_no_document_waits_for_a_value_that_only_aws_knows(preview: Recording) -> None:
    documents = ("userData", "policy", "assumeRolePolicy", "jobspec", "create", "environment")
    texts = {
        f"{found.name}.{key}": value
        for found in preview.by_urn.values()
        for key, value in found.inputs.items()
        if key in (*documents, "content")
    }
    assert any(name.endswith(".userData") for name in texts)
    assert [name for name, value in texts.items() if UNKNOWN in str(value)] == []


def test_every_fixed_host_is_an_instance_with_the_address_of_the_plan(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    planned = {server.name: server.address for server in plan.servers}
    planned |= {node.name: node.address for pool in plan.pools for node in pool.hosts}
    found = {each.name: each for each in preview.of_type(INSTANCE)}
    assert {name.removeprefix("host-"): each.text("privateIp") for name, each in found.items()} == (
        planned
    )
    subnets = {each.text("cidrBlock") for each in preview.of_type(SUBNET)}
    for name, address in planned.items():
        zone = next(each for each in plan.aws.zones if each.name == plan.aws.hosts[name].zone)
        assert zone.hosts in subnets
        assert ip_address(address) in ip_network(zone.hosts)
        host = found[f"host-{name}"]
        assert (host.protect, host.ignore_changes) == (True, ("launchTemplate", "userData"))
        assert host.inputs["associatePublicIpAddress"] is False


def test_roots_are_encrypted_and_metadata_needs_a_token_one_hop_away(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    templates = preview.of_type(TEMPLATE)
    assert len(templates) == len(plan.aws.hosts) + len(plan.aws.pools)
    for template in templates:
        options = template.inputs["metadataOptions"]
        assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)
        (root,) = template.inputs["blockDeviceMappings"]
        assert root["ebs"]["encrypted"] == "true"
        assert root["ebs"].get("kmsKeyId", "") == plan.aws.kms_key
        name = template.name.removeprefix("template-").removesuffix("-template")
        planned = plan.aws.hosts.get(name) or plan.aws.pools[name.removeprefix("pool-")]
        assert root["ebs"]["volumeSize"] == planned.root_gib
        image = planned.image
        assert root["deviceName"] == image.root_device
        assert template.text("imageId") in (image.name, f"resolve:ssm:{image.name}")


def test_user_data_fits_and_has_the_same_programs_on_every_host(preview: Recording) -> None:
    hosts = {each.name: each.text("userData") for each in preview.of_type(INSTANCE)}
    assert all(len(text.encode()) <= LIMIT_BYTES for text in hosts.values())
    bodies = {text.replace(name.removeprefix("host-"), "HOST") for name, text in hosts.items()}
    assert len(bodies) == 1


def test_a_host_may_read_its_own_secret_and_nothing_else(preview: Recording) -> None:
    for policy in preview.of_type(POLICY):
        if policy.name.startswith("pool-"):
            continue
        host = policy.name.removeprefix("role-").removesuffix("-own-secret")
        reading, *decrypting = json.loads(policy.text("policy"))["Statement"]
        assert reading["Action"] == "secretsmanager:GetSecretValue"
        assert reading["Resource"] == (
            f"arn:aws:secretsmanager:us-east-1:*:secret:slipway/fleet/hosts/{host}-??????"
        )
        assert [each["Action"] for each in decrypting] in ([], ["kms:Decrypt"])
        assert all("kms:ViaService" in str(each["Condition"]) for each in decrypting)


def test_ssh_host_keys_are_secrets_of_the_state(preview: Recording) -> None:
    versions = preview.of_type(SECRET_VERSION)
    assert versions
    for version in versions:
        value = version.inputs["secretString"]
        assert value == UNKNOWN if version.name.startswith("pool-") else value[SIGNATURE] == SECRET


SEED = "canary of the seed of host keys"


def test_secrets_are_in_secrets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run that creates everything: neither user data nor bucket, tags or policies."""
    plan = with_host_keys(aws_plan("an elastic pool"), lambda host: public_key(SEED, "fleet", host))
    monkeypatch.setattr(pulumi.Config, "get_secret", lambda *_: pulumi.Output.secret(SEED))
    created = record(lambda: Platform("platform", plan, TARGET))
    found = {each.name: each for each in created.by_urn.values()}
    secret = found["pool-l4-secret-joining"].inputs["secretString"]
    assert secret[SIGNATURE] == SECRET
    joining = json.loads(secret["value"])
    jsonschema.validate(joining, POOL_SECRET)
    assert joining["agents"]["consul"]["encrypt"]
    assert "PRIVATE KEY" in joining["certificate"]["key.pem"]
    canaries = [SEED, "random of", "PRIVATE KEY", joining["agents"]["consul"]["encrypt"]]
    own = private_key(SEED, "fleet", "server-0").splitlines()[1]
    for kind in ("aws:", "nomad:", "slipway:"):
        for each in created.of_type(kind):
            shown = json.dumps({k: v for k, v in each.inputs.items() if not is_secret(v)})
            assert not [canary for canary in (*canaries, own) if canary in shown], each.name


def is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET


def test_a_known_key_that_is_not_the_seeds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = with_host_keys(aws_plan(), lambda host: public_key("another seed", "fleet", host))
    monkeypatch.setattr(pulumi.Config, "get_secret", lambda *_: pulumi.Output.secret(SEED))
    with pytest.raises(pulumi.RunError, match="known_hosts has another public key of"):
        record(lambda: Platform("platform", plan, TARGET))


def test_without_a_seed_nothing_is_created() -> None:
    with pytest.raises(pulumi.RunError, match="host_key_seed is missing"):
        record(lambda: Platform("platform", aws_plan(), TARGET))


def test_rules_come_in_pairs_with_a_reason_and_nothing_is_open_to_everywhere(
    plan: PlatformPlan,
    preview: Recording,
) -> None:
    into = {each.name.removeprefix("in-"): each.inputs for each in preview.of_type(INGRESS)}
    out = {each.name.removeprefix("out-"): each.inputs for each in preview.of_type(EGRESS)}
    clients = [
        into.pop(name) for name in list(into) if "referencedSecurityGroupId" not in into[name]
    ]
    assert {rule["cidrIpv4"] for rule in clients} == set(
        plan.aws.load_balancer.clients if plan.aws and plan.aws.load_balancer else ()
    )
    assert set(into) <= set(out)
    for name, rule in into.items():
        assert _without_groups(rule) == _without_groups(out[name])
    assert all(rule["description"] for rule in (*into.values(), *out.values()))
    others = {name: rule for name, rule in out.items() if name not in into}
    assert all("prefixListId" in rule or "cidrIpv4" in rule for rule in others.values())
    for group in preview.of_type(GROUP):
        assert not {"ingress", "egress"} & set(group.inputs)


def _without_groups(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if "SecurityGroup" not in key}


def test_only_nat_leads_out_of_the_network(variant: str, preview: Recording) -> None:
    everywhere = [each.name for each in preview.by_urn.values() if "0.0.0.0/0" in str(each.inputs)]
    nat = {"route-internet", "route-nat", *(f"out-{g}-internet" for g in GROUPS)}
    assert set(everywhere) == (nat if "NAT" in variant else set())


GROUPS = ("servers", "gateway", "nodes")


def boot_documents(preview: Recording) -> dict[str, str]:
    """The boot documents in the bucket, by key."""
    found = {each.text("key"): each.text("content") for each in preview.of_type(OBJECT)}
    return {key: content for key, content in found.items() if "/boot/" in key}


def templates_of_pools(preview: Recording) -> dict[str, Registration]:
    found = {each.name: each for each in preview.of_type(TEMPLATE)}
    return {name[5:-9]: each for name, each in found.items() if name.startswith("pool-")}


def test_the_user_data_of_a_pool_names_its_boot_document_by_digest(preview: Recording) -> None:
    documents = boot_documents(preview)
    pools = templates_of_pools(preview)
    assert len(pools) == len(documents)
    for pool, template in pools.items():
        text = base64.b64decode(template.text("userData")).decode()
        assert len(text.encode()) <= LIMIT_BYTES
        configuration = json.loads(text.removeprefix("#cloud-config\n"))
        assert configuration["users"] == []
        files = {each["path"]: each["content"] for each in configuration["write_files"]}
        named = json.loads(files["/etc/slipway-boot.json"])
        content = documents[named["key"]]
        assert hashlib.sha256(content.encode()).hexdigest() == named["sha256"]
        document = json.loads(content)
        assert document["pool"] == pool
        jsonschema.validate(document, BOOT)


def test_only_a_store_on_the_instances_own_disks_is_in_the_boot_document() -> None:
    preview = recorded(aws_plan("local disks"))
    documents = {
        document["pool"]: document for document in map(json.loads, boot_documents(preview).values())
    }
    assert documents["l4"]["model_store"] == {"path": "/mnt/models", "size_bytes": 245 * 10**9}
    assert "model_store" not in documents["h100"]  # a folder on the root volume
    template = templates_of_pools(preview)["l4"]
    assert b"local_disks" not in base64.b64decode(template.text("userData"))


def test_a_boot_document_is_a_nodes_document_but_for_name_and_address(
    preview: Recording,
) -> None:
    for content in boot_documents(preview).values():
        node = json.loads(content)["node"]
        filled = json.dumps(node).replace("@host@", "l4-0123").replace("@address@", "10.40.3.7")
        jsonschema.validate(json.loads(filled), NODE)
        assert not re.findall("@(host|address)@", filled)
        assert '"host": "l4-0123"' in filled


def test_the_bucket_gets_all_that_boot_documents_name_and_models_run(
    plan: PlatformPlan, preview: Recording
) -> None:
    documents = [json.loads(each) for each in boot_documents(preview).values()]
    if not documents:
        return
    filled = json.loads(preview["bucket-filled"].inputs["environment"]["SLIPWAY_DOCUMENT"])
    jsonschema.validate(filled, PUBLICATION)
    wanted = {artifact for each in documents for artifact in each["artifacts"]}
    for each in documents:
        of_models = {*of_replicas(plan, each["pool"])}
        assert not of_models & {*each["artifacts"]}  # a model's change replaces no machine
        wanted |= of_models
    assert set(filled["artifacts"]) == wanted
    assert {each["prefix"] for each in documents} == {filled["prefix"]}


def test_a_node_may_read_what_it_boots_from_and_speak_to_its_own_group(
    plan: PlatformPlan, preview: Recording
) -> None:
    for policy in preview.of_type(POLICY):
        pool = policy.name.removeprefix("pool-").removesuffix("-role-nodes")
        if plan.aws is None or pool not in plan.aws.pools:
            continue
        secret, objects, group, *decrypting = json.loads(policy.text("policy"))["Statement"]
        assert secret["Resource"].endswith(f":secret:slipway/fleet/pools/{pool}-??????")
        assert (objects["Action"], objects["Resource"]) == (
            "s3:GetObject",
            "arn:aws:s3:::acme-slipway-prod/fleet/*",
        )
        assert group["Resource"].endswith(f":autoScalingGroupName/slipway-fleet-{pool}")
        assert [each["Action"] for each in decrypting] in ([], ["kms:Decrypt"])


def test_a_group_has_its_pools_bounds_and_keeps_its_count(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    groups = {each.name: each for each in preview.of_type(AUTO_SCALING)}
    assert len(groups) == len(plan.aws.pools)
    for name, planned in plan.aws.pools.items():
        group, pool = groups[f"pool-{name}-group"], plan.pool(name)
        sizes = [group.inputs[key] for key in ("minSize", "maxSize", "desiredCapacity")]
        assert sizes == [pool.nodes_min, pool.nodes_max, pool.nodes_min]
        assert (group.ignore_changes, group.protect) == (("desiredCapacity",), True)
        assert group.inputs["launchTemplate"]["version"] == UNKNOWN  # a number, once there is one
        assert len(group.inputs["vpcZoneIdentifiers"]) == len(planned.zones)
        assert group.inputs["capacityRebalance"] is (planned.market == "spot")
        assert "introducer" in group.depends_on


def test_what_jobs_run_is_written_down_once_every_model_is_as_planned(
    plan: PlatformPlan, preview: Recording
) -> None:
    for content in boot_documents(preview).values():
        boot = json.loads(content)
        running = preview[f"pool-{boot['pool']}-running"]
        assert running.text("key") == boot["running"]
        assert set(json.loads(running.text("content"))) == {*of_replicas(plan, boot["pool"])}
        assert running.depends_on >= {"routes-acknowledged", "bucket"}
        assert not running.protect


def test_a_group_waits_for_nodes_that_join_and_that_leave(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    hooks = {each.name: each.inputs for each in preview.of_type(HOOK)}
    assert len(hooks) == 2 * len(plan.aws.pools)
    for content in boot_documents(preview).values():
        boot = json.loads(content)
        joins, leaves = (
            hooks[f"pool-{boot['pool']}-{boot['group'][kind]}"] for kind in ("joined", "left")
        )
        assert (joins["lifecycleTransition"], joins["defaultResult"]) == (
            "autoscaling:EC2_INSTANCE_LAUNCHING",
            "ABANDON",
        )
        assert (leaves["lifecycleTransition"], leaves["defaultResult"]) == (
            "autoscaling:EC2_INSTANCE_TERMINATING",
            "CONTINUE",
        )
        assert leaves["heartbeatTimeout"] == boot["group"]["heartbeat_s"]
        longest_s = 2 * boot["node"]["departure"]["drain_timeout_s"]
        assert leaves["heartbeatTimeout"] * 100 > longest_s


def test_nodes_are_replaced_when_what_they_boot_from_changes(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    for name, planned in plan.aws.pools.items():
        run = preview[f"pool-{name}-refreshed"]
        document = json.loads(run.inputs["environment"]["SLIPWAY_DOCUMENT"])
        jsonschema.validate(document, REFRESH)
        bounds = (document["min_healthy_percent"], document["max_healthy_percent"])
        assert bounds == ((90, 100) if planned.reservation else (100, 110))
        other = template_digest(plan.aws, name, "other user data")
        assert document["template"] not in (other, "")
        assert f"pool-{name}-group" in run.depends_on
        assert f"pool-{name}-refreshed" in preview[f"pool-{name}-ready"].depends_on


MARKETS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "an elastic pool": ("l4", {}, False),
    "spot instances and a key": ("l4", {"instanceMarketOptions": {"marketType": "spot"}}, False),
    "on demand with EFA": ("h100", {}, True),
    "reserved with EFA": ("h100", {"capacityReservationSpecification": TARGET_OF}, True),
    "a block with EFA": (
        "h100",
        {
            "capacityReservationSpecification": TARGET_OF,
            "instanceMarketOptions": {"marketType": "capacity-block"},
        },
        False,
    ),
}


@pytest.mark.parametrize("market", MARKETS)
def test_every_market_has_its_own_shape(market: str) -> None:
    pool, shape, close_together = MARKETS[market]
    preview = recorded(aws_plan(market))
    inputs = templates_of_pools(preview)[pool].inputs
    keys = ("capacityReservationSpecification", "instanceMarketOptions")
    assert {key: inputs[key] for key in keys if key in inputs} == shape
    placed = inputs.get("placement", {}).get("groupName")
    assert placed == (f"slipway-fleet-{pool}" if close_together else None)


def test_all_cards_of_a_p5_are_in_the_template_and_in_the_fabrics_group() -> None:
    preview = recorded(aws_plan("reserved with EFA"))
    interfaces = templates_of_pools(preview)["h100"].inputs["networkInterfaces"]
    assert [each.get("interfaceType") for each in interfaces] == [None, *["efa-only"] * 32]
    assert {(each["networkCardIndex"], each["deviceIndex"]) for each in interfaces} == {
        (0, 0),
        (0, 1),
        *((card, 0) for card in range(1, 32)),
    }
    assert all(len(each["securityGroups"]) == 1 for each in interfaces)


def test_the_introducer_knows_the_role_of_every_pool_and_comes_before_their_groups() -> None:
    preview = recorded(aws_plan("reserved with EFA"))
    jobs = {each.name: each.text("jobspec") for each in preview.of_type("nomad:index/job")}
    (group,) = json.loads(jobs["introducer"])["Job"]["TaskGroups"]
    assert group["Count"] == 2
    (task,) = group["Tasks"]
    (file,) = (each for each in task["Templates"] if each["DestPath"] == "local/introducer.json")
    document = json.loads(re.sub("<%.*?%>", "10.40.0.16", file["EmbeddedTmpl"]))
    jsonschema.validate(document, INTRODUCER)
    assert document["pools"] == {"slipway-fleet-pool-h100": "h100"}


@pytest.mark.parametrize("variant", ["endpoints", "NAT and a public load balancer"])
def test_a_load_balancer_passes_clients_through_to_the_hosts_of_the_gateway(variant: str) -> None:
    plan = aws_plan(variant)
    assert plan.aws is not None
    planned = plan.aws.load_balancer
    assert planned is not None
    preview = recorded(plan)
    (balancer,) = preview.of_type("aws:lb/loadBalancer:LoadBalancer")
    (hosts,) = preview.of_type("aws:lb/targetGroup:TargetGroup")
    (listener,) = preview.of_type("aws:lb/listener:Listener")
    assert (balancer.inputs["internal"], balancer.protect) == (not planned.public, True)
    assert len(balancer.inputs["subnets"]) == len(plan.aws.zones)
    public = [each for each in preview.of_type(SUBNET) if "public" in each.name]
    assert len(public) == (len(plan.aws.zones) if planned.public else 0)
    targets = preview.of_type("aws:lb/targetGroupAttachment")
    edge = {each.text("privateIp") for each in preview.of_type(INSTANCE) if "edge" in each.name}
    assert {each.text("targetId") for each in targets} == edge
    longest = max(model.route["max_stream_duration_s"] for model in plan.models)
    assert hosts.inputs["deregistrationDelay"] >= longest
    (unhealthy,) = hosts.inputs["targetHealthStates"]
    assert unhealthy["enableUnhealthyConnectionTermination"] is False
    assert unhealthy["unhealthyDrainingInterval"] >= longest
    assert (listener.inputs["protocol"], listener.inputs["port"]) == ("TCP", planned.port)
    health = hosts.inputs["healthCheck"]
    scheme = "HTTPS" if planned.public else "HTTP"
    assert (health["protocol"], health["path"]) == (scheme, "/healthz")


def test_what_runs_on_a_host_waits_for_its_machine(preview: Recording) -> None:
    for instance in preview.of_type(INSTANCE):
        host = instance.name.removeprefix("host-")
        assert instance.name in preview[f"delivery-{host}"].depends_on


def test_the_way_in_is_an_endpoint_only_where_the_operator_is_outside() -> None:
    way_in = "aws:ec2transitgateway/instanceConnectEndpoint:InstanceConnectEndpoint"
    assert recorded(aws_plan()).of_type(way_in) == []
    plan = aws_plan("through EC2 Instance Connect")
    preview = recorded(plan)
    (endpoint,) = preview.of_type(way_in)
    assert endpoint.inputs["preserveClientIp"] is False
    assert endpoint.inputs["tags"]["slipway:environment"] == "fleet"
    for host in plan.aws.hosts if plan.aws else ():
        delivery = preview[f"delivery-{host}"]
        assert endpoint.name in delivery.depends_on
        document = json.loads(delivery.inputs["environment"]["SLIPWAY_DOCUMENT"])
        assert document["ssh"]["address"].startswith("127.")
        assert document["ssh"]["port"] == 22022
        assert document["boots_within_s"] > 0
        jsonschema.validate(document, DELIVERY)


def test_before_the_first_up_a_preview_needs_no_host_keys() -> None:
    preview = recorded(aws_plan(host_keys=False))
    assert preview.of_type(INSTANCE)


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a key of another spelling": (INSTANCE, {"privateIP": "10.0.0.1"}, "privateIP is not an input"),
    "a key inside": (
        TEMPLATE,
        {"metadataOptions": {"httpToken": "x"}},
        "httpToken is not an input",
    ),
    "a number as text": (INSTANCE, {"cpuOptions": {"coreCount": "2"}}, "its type is <class 'int'>"),
    "a text as list": (INSTANCE, {"vpcSecurityGroupIds": "sg-1"}, "its type is"),
    "a list inside": (TEMPLATE, {"tagSpecifications": [{"tags": ["a"]}]}, "its type is"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_input_is_found(mistake: str) -> None:
    type_, change, said = MISTAKES[mistake]
    found = recorded(aws_plan()).of_type(type_)[0]
    found.inputs.update(change)
    (deviation,) = deviations(found)
    assert said in deviation


def test_a_missing_input_is_found() -> None:
    found = recorded(aws_plan()).of_type(SUBNET)[0]
    del found.inputs["vpcId"]
    assert [*deviations(found)] == [f"{found.name}.vpcId is required by SubnetArgs"]
