"""Consul's ACLs as documents for services/operator/consul_acl.py (schemas/consul-acl.schema.json).

The default is to deny. Each agent has its own token. Nomad's services and tasks get theirs by
workload identity: a service may only register itself, a task has the permissions of its job's role,
and a task of a job without a role gets no token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components import seeds

SCHEMA_VERSION = 1  # of the documents and their secrets
AUTH_METHOD = "nomad-workloads"  # the default of Nomad's servers and clients
IDENTITY_AUDIENCE = "consul.io"
INTRODUCTION_AUDIENCE = "nomadproject.io"  # of the tokens that introduce a node to Nomad
NODE_NAME = "nomad_node_name"  # the claim
MANAGEMENT = "management"
LEADER_TIMEOUT_S = 120

SERVER_POLICY = "nomad-server"
CLIENT_POLICY = "nomad-client"

_READ_CATALOG = 'node_prefix "" { policy = "read" }\nservice_prefix "" { policy = "read" }\n'

POLICIES = {
    # Nomad registers itself; the jobs' services are registered with the workloads' own tokens.
    SERVER_POLICY: (
        'agent_prefix "" { policy = "read" }\n'
        'node_prefix "" { policy = "read" }\n'
        'service "nomad" { policy = "write" }\n'
    ),
    # A client also deregisters services whose workload has ended, and whose token with it.
    CLIENT_POLICY: (
        'agent_prefix "" { policy = "read" }\n'
        'node_prefix "" { policy = "read" }\n'
        'service_prefix "" { policy = "write" }\n'
    ),
    # One control plane computes weights for all; a session of its agent's node locks them.
    "slipway-xds": _READ_CATALOG
    + 'key_prefix "slipway/" { policy = "read" }\n'
    + 'key_prefix "slipway/weights/" { policy = "write" }\n'
    + 'session_prefix "" { policy = "write" }\n',
    # agent: for an agent's own metrics
    "slipway-prometheus": _READ_CATALOG + 'agent_prefix "" { policy = "read" }\n',
    "slipway-evacuation": _READ_CATALOG,
    # Members of a replica over several nodes find each other.
    "slipway-members": _READ_CATALOG,
    # Consul asks for no less: a snapshot holds all tokens.
    "slipway-snapshots": 'acl = "write"\n',
}

# The roles of tasks. Each has the policy of the same name.
CONTROL_PLANE_ROLE, PROMETHEUS_ROLE = "slipway-xds", "slipway-prometheus"
SNAPSHOTS_ROLE, EVACUATION_ROLE = "slipway-snapshots", "slipway-evacuation"
MEMBERS_ROLE = "slipway-members"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """The log-in of an introduced host's agent: its introduction gets it a token of Consul, bound
    to the node that the introduction names. Each agent has an auth method of its own, because
    Consul grants all rules of a method to every token of it."""

    auth_method: str
    agent: str  # of the host
    what: str
    service: str = ""  # that it registers
    policy: str = ""  # of POLICIES; the role has the same name


def acl_document(
    consul_address: str,
    tokens: Sequence[Mapping[str, Any]],
    roles: Collection[str],
    log_ins: Sequence[LogIn] = (),
) -> dict[str, Any]:
    """Policies, the roles of tasks and of agents that log in, and the hosts' tokens without their
    secrets."""
    policies = (SERVER_POLICY, CLIENT_POLICY, *roles)
    return {
        "schema_version": SCHEMA_VERSION,
        "address": consul_address,
        "leader_timeout_s": LEADER_TIMEOUT_S,
        "policies": [
            {"Name": name, "Description": ours(f"policy {name}"), "Rules": POLICIES[name]}
            for name in sorted(set(policies))
        ],
        "roles": [
            *(_role(role, f"role {role}") for role in sorted(set(roles))),
            *(_role(log_in.policy, log_in.what) for log_in in log_ins if log_in.policy),
        ],
        "tokens": list(tokens),
    }


def workload_document(
    consul_address: str, jwks_url: str, roles: Mapping[str, str], log_ins: Sequence[LogIn] = ()
) -> dict[str, Any]:
    """The auth methods for Nomad's workloads and for the agents of introduced hosts. Consul fetches
    the keys at once, so Nomad must be up.

    `roles`: Nomad job -> the role of its tasks.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "address": consul_address,
        "leader_timeout_s": LEADER_TIMEOUT_S,
        "auth_methods": [
            _auth_method(jwks_url),
            *(_auth_method_of_hosts(log_in, jwks_url) for log_in in log_ins),
        ],
        "binding_rules": [
            *_binding_rules(roles),
            *(rule for log_in in log_ins for rule in _binding_rules_of_hosts(log_in)),
        ],
    }


def workload_secrets(management_token: str, authority: str) -> dict[str, Any]:
    """`authority` (PEM) signed the certificate of the server of Nomad's keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "management_token": management_token,
        "authority": authority,
    }


def acl_secrets(token_secrets: Mapping[str, str], seed: str) -> dict[str, Any]:
    """The management token, and every token's secret by accessor id."""
    return {
        "schema_version": SCHEMA_VERSION,
        "management_token": seeds.token(seed, MANAGEMENT),
        "tokens": dict(token_secrets),
    }


def _auth_method(jwks_url: str) -> dict[str, Any]:
    claims = ("nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service")
    return {
        "Name": AUTH_METHOD,
        "Type": "jwt",
        "Description": ours("workload identities of Nomad"),
        # No MaxTokenTTL: Nomad does not renew Consul tokens, so a task would lose its token.
        "Config": {
            "JWKSURL": jwks_url,
            "JWTSupportedAlgs": ["RS256"],
            "BoundAudiences": [IDENTITY_AUDIENCE],
            "ClaimMappings": {claim: claim for claim in claims},
        },
    }


def _binding_rules(roles: Mapping[str, str]) -> list[dict[str, Any]]:
    services = {
        "AuthMethod": AUTH_METHOD,
        "Description": ours("a service may register itself"),
        "BindType": "service",
        "BindName": "${value.nomad_service}",
        "Selector": '"nomad_service" in value',
    }
    tasks = [
        {
            "AuthMethod": AUTH_METHOD,
            "Description": ours(f"tasks of the job {job}"),
            "BindType": "role",
            "BindName": role,
            "Selector": (
                '"nomad_service" not in value'
                f' and value.nomad_namespace == "default" and value.nomad_job_id {_names(job)}'
            ),
        }
        for job, role in sorted(roles.items())
    ]
    return [services, *tasks]


def _names(job: str) -> str:
    """A job by its ID, or all jobs whose IDs have a beginning: those of a model's specs."""
    beginning = job.removesuffix("*")
    return f'== "{job}"' if beginning == job else f'matches "^{beginning}"'


def _auth_method_of_hosts(log_in: LogIn, jwks_url: str) -> dict[str, Any]:
    return {
        "Name": log_in.auth_method,
        "Type": "jwt",
        "Description": ours(log_in.what),
        # No MaxTokenTTL: the introduction ends, and the agent goes on with this token.
        "Config": {
            "JWKSURL": jwks_url,
            "JWTSupportedAlgs": ["RS256"],
            "BoundAudiences": [INTRODUCTION_AUDIENCE],
            "ClaimMappings": {NODE_NAME: NODE_NAME},
        },
    }


def _binding_rules_of_hosts(log_in: LogIn) -> list[dict[str, Any]]:
    """Every token is bound to its node, so that the removal of a host finds the host's tokens."""
    bound = [
        ("node", f"${{value.{NODE_NAME}}}", "may register their node"),
        ("service", log_in.service, "may register themselves"),
        ("role", log_in.policy, "have a role"),
    ]
    return [
        {
            "AuthMethod": log_in.auth_method,
            "Description": ours(f"{log_in.what} {permission}"),
            "BindType": kind,
            "BindName": name,
            # The identities of nodes and of workloads have this audience too, and no such claim.
            "Selector": f'"{NODE_NAME}" in value',
        }
        for kind, name, permission in bound
        if name
    ]


def _role(name: str, what: str) -> dict[str, Any]:
    return {"Name": name, "Description": ours(what), "Policies": [{"Name": name}]}


def ours(description: str) -> str:
    """consul_acl.py prunes objects with this prefix that the document no longer lists."""
    return f"slipway: {description}"
