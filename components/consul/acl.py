"""Consul's ACLs as documents for services/node/consul_acl.py.

Default deny. Agents get tokens of their own; services and tasks of Nomad get theirs by workload
identity: a service may register itself and nothing else, a task may do what its job's role says,
and a task of a job without a role gets no token at all.
"""

from __future__ import annotations

from typing import Any

from components import seeds
from slipway.plan.platform import PlatformPlan

SCHEMA_VERSION = 1
AUTH_METHOD = "nomad-workloads"  # the name Nomad's servers and clients use unless told otherwise
IDENTITY_AUDIENCE = "consul.io"
MANAGEMENT = "management"
LEADER_TIMEOUT_S = 120

SERVER_POLICY = "nomad-server"
CLIENT_POLICY = "nomad-client"

_READ_CATALOG = 'node_prefix "" { policy = "read" }\nservice_prefix "" { policy = "read" }\n'

POLICIES = {
    # Nomad announces itself; services of jobs are registered with the workloads' own tokens.
    SERVER_POLICY: (
        'agent_prefix "" { policy = "read" }\n'
        'node_prefix "" { policy = "read" }\n'
        'service "nomad" { policy = "write" }\n'
    ),
    # A client also removes services whose workload, and with it the workload's token, is gone.
    CLIENT_POLICY: (
        'agent_prefix "" { policy = "read" }\n'
        'node_prefix "" { policy = "read" }\n'
        'service_prefix "" { policy = "write" }\n'
    ),
    "slipway-xds": _READ_CATALOG + 'key_prefix "slipway/" { policy = "read" }\n',
    # agent: an agent's own metrics
    "slipway-prometheus": _READ_CATALOG + 'agent_prefix "" { policy = "read" }\n',
}

# Nomad job -> the role of its tasks, which has the policy of the same name.
TASK_ROLES = {"xds": "slipway-xds", "prometheus": "slipway-prometheus"}


def acl_document(plan: PlatformPlan, consul_address: str) -> dict[str, Any]:
    """Policies, roles, and the agents' tokens without their secrets."""
    return {
        "schema_version": SCHEMA_VERSION,
        "address": consul_address,
        "leader_timeout_s": LEADER_TIMEOUT_S,
        "policies": [
            {"Name": name, "Description": _ours(f"policy {name}"), "Rules": rules}
            for name, rules in sorted(POLICIES.items())
        ],
        "roles": [
            {
                "Name": role,
                "Description": _ours(f"tasks of the job {job}"),
                "Policies": [{"Name": role}],
            }
            for job, role in sorted(TASK_ROLES.items())
        ],
        "tokens": [
            *(_agent_token(plan, host) for host in _hosts(plan)),
            *(_nomad_token(plan, host.name, SERVER_POLICY) for host in plan.servers),
            *(_nomad_token(plan, node.name, CLIENT_POLICY) for node in _nodes(plan)),
        ],
    }


def workload_document(consul_address: str, jwks_url: str) -> dict[str, Any]:
    """The way in for Nomad's workloads. Consul fetches the keys at once: Nomad must be up."""
    return {
        "schema_version": SCHEMA_VERSION,
        "address": consul_address,
        "leader_timeout_s": LEADER_TIMEOUT_S,
        "auth_methods": [_auth_method(jwks_url)],
        "binding_rules": _binding_rules(),
    }


def workload_secrets(management_token: str) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "management_token": management_token}


def acl_secrets(plan: PlatformPlan, seed: str) -> dict[str, Any]:
    """The management token, and the secret of every token by its accessor id."""
    names = [
        *(agent_token_name(host) for host in _hosts(plan)),
        *(nomad_token_name(host) for host in _hosts(plan)),
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "management_token": seeds.token(seed, MANAGEMENT),
        "tokens": {_accessor(plan, name): seeds.token(seed, name) for name in names},
    }


def agent_token_name(host: str) -> str:
    """What the token of a host's Consul agent is derived from."""
    return f"consul agent {host}"


def nomad_token_name(host: str) -> str:
    """What the Consul token of a host's Nomad agent is derived from."""
    return f"nomad agent {host}"


def _auth_method(jwks_url: str) -> dict[str, Any]:
    claims = ("nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service")
    return {
        "Name": AUTH_METHOD,
        "Type": "jwt",
        "Description": _ours("workload identities of Nomad"),
        # No MaxTokenTTL: Nomad does not renew Consul tokens, a task would lose its own.
        "Config": {
            "JWKSURL": jwks_url,
            "JWTSupportedAlgs": ["RS256"],
            "BoundAudiences": [IDENTITY_AUDIENCE],
            "ClaimMappings": {claim: claim for claim in claims},
        },
    }


def _binding_rules() -> list[dict[str, Any]]:
    services = {
        "AuthMethod": AUTH_METHOD,
        "Description": _ours("a service may register itself"),
        "BindType": "service",
        "BindName": "${value.nomad_service}",
        "Selector": '"nomad_service" in value',
    }
    tasks = [
        {
            "AuthMethod": AUTH_METHOD,
            "Description": _ours(f"tasks of the job {job}"),
            "BindType": "role",
            "BindName": role,
            "Selector": (
                '"nomad_service" not in value'
                f' and value.nomad_namespace == "default" and value.nomad_job_id == "{job}"'
            ),
        }
        for job, role in sorted(TASK_ROLES.items())
    ]
    return [services, *tasks]


def _agent_token(plan: PlatformPlan, host: str) -> dict[str, Any]:
    name = agent_token_name(host)
    return {
        "AccessorID": _accessor(plan, name),
        "Description": _ours(name),
        "NodeIdentities": [{"NodeName": host, "Datacenter": plan.datacenter}],
        "ServiceIdentities": [{"ServiceName": "consul-agent"}],
    }


def _nomad_token(plan: PlatformPlan, host: str, policy: str) -> dict[str, Any]:
    name = nomad_token_name(host)
    return {
        "AccessorID": _accessor(plan, name),
        "Description": _ours(name),
        "Policies": [{"Name": policy}],
    }


def _accessor(plan: PlatformPlan, name: str) -> str:
    return seeds.public_id(f"{plan.environment}/{name}")


def _nodes(plan: PlatformPlan) -> list[Any]:
    return [node for pool in plan.pools for node in pool.nodes]


def _hosts(plan: PlatformPlan) -> list[str]:
    return [host.name for host in (*plan.servers, *_nodes(plan))]


def _ours(description: str) -> str:
    """consul_acl.py deletes what begins so and is no longer in the document."""
    return f"slipway: {description}"
