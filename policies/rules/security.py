"""Secrets, permissions, and code that can change after its review."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from rules.credentials import holds_secret, names_secret
from rules.facts import (
    flag_or_none,
    mapping,
    mappings,
    require,
    text,
    text_or_none,
)
from rules.jobs import job_of, tasks
from rules.rule import (
    ALWAYS,
    COMMAND,
    CONSUL_KEYS,
    MODEL_SERVICE,
    NOMAD_ACL_POLICY,
    NOMAD_JOB,
    SHARED,
    Resource,
    rule,
)


@rule(
    NOMAD_JOB,
    severity=ALWAYS,
    why="Everyone who may list jobs can read it, and it stays in Nomad's history and in Pulumi's"
    " state.",
    fix="Put the secret into a Nomad variable or Vault, and let the task read it with its workload"
    " identity.",
)
def secret_in_job(job: Resource) -> Iterator[str]:
    """No job holds a secret"""
    for task in tasks(job_of(job.props)):
        for name, value in mapping(task.document, "Env").items():
            if names_secret(name, str(value)) or holds_secret(str(value)):
                yield f"task {task} has a secret in its environment ({name})"
        for file in mappings(task.document, "Templates"):
            if holds_secret(text_or_none(file, "EmbeddedTmpl") or ""):
                yield f"task {task} has a secret in {text_or_none(file, 'DestPath')}"
        if holds_secret(json.dumps(mapping(task.document, "Config"), default=str)):
            yield f"task {task} has a secret in its configuration"


@rule(
    CONSUL_KEYS,
    severity=ALWAYS,
    why="Consul's KV store is not encrypted, and every agent with a token for the prefix reads it.",
    fix="Keep secrets in Nomad variables or Vault; KV is for configuration.",
)
def secret_in_kv(keys: Resource) -> Iterator[str]:
    """No key in Consul holds a secret"""
    for entry in mappings(keys.props, "keys"):
        path, value = text(entry, "path"), text_or_none(entry, "value") or ""
        if holds_secret(value) or names_secret(path, value):
            yield f"the key {path} holds a secret"


@rule(
    COMMAND,
    severity=ALWAYS,
    why="A command line is visible to every process of the machine, and both it and the environment"
    " are plain values in Pulumi's state.",
    fix="Give the secret through `stdin`.",
)
def secret_in_command(command: Resource) -> Iterator[str]:
    """Commands get secrets through standard input only"""
    for key in ("create", "update", "delete"):
        if holds_secret(text_or_none(command.props, key) or ""):
            yield f"has a secret on the command line of `{key}`"
    environment = mapping(command.props, "environment")
    for name in environment:
        value = text_or_none(environment, name) or ""
        if holds_secret(value) or names_secret(name, value):
            yield f"has a secret in its environment ({name})"


@rule(
    NOMAD_ACL_POLICY,
    severity=SHARED,
    why="Whoever may submit jobs in every namespace owns every node: a task can be any program.",
    fix="Name the namespace, and grant capabilities instead of `write`.",
)
def wildcard_nomad_policy(policy: Resource) -> Iterator[str]:
    """No Nomad ACL policy may write everywhere"""
    rules = text(policy.props, "rulesHcl")
    for namespace, body in re.findall(r'namespace\s+"([^"]*)"\s*\{([^}]*)\}', rules):
        if "*" in namespace and re.search(r'policy\s*=\s*"write"|"submit-job"', body):
            yield f'may submit jobs in the namespaces "{namespace}"'
    if re.search(r'(?:operator|agent)\s*\{[^}]*policy\s*=\s*"write"', rules):
        yield "may change servers and agents"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="A tag can be moved: the next replica would run different code from the ones beside it.",
    fix="Name the image by digest, `image@sha256:…`, or one that is loaded from a file by its ID,"
    " `sha256:…`.",
)
def unpinned_image(job: Resource) -> Iterator[str]:
    """Images are named by their content"""
    for task in tasks(job_of(job.props)):
        image = text_or_none(task.document, "Config.image")
        if image and not re.search(r"(^|@)sha256:[0-9a-f]{64}$", image):
            yield f"task {task} runs {image}"


@rule(
    MODEL_SERVICE,
    severity=ALWAYS,
    why="Weights under a moving name can change without a change here, and two replicas of one job"
    " may answer differently.",
    fix="Name a commit (`hf:`), an exact version with `sha256` (`package:`), or a fixed revision.",
)
def unpinned_model(model: Resource) -> Iterator[str]:
    """A model's weights are pinned"""
    if _loads_no_weights(model):
        return
    source = mapping(model.props, "source")
    kind = text(source, "kind")
    require(source, "revision")
    revision = text_or_none(source, "revision") or ""
    if kind == "hf" and not re.fullmatch(r"[0-9a-f]{40}", revision):
        yield "its revision is not a commit"
    elif kind == "package" and not re.fullmatch(r"[0-9a-f]{64}", revision):
        yield "its file has no SHA-256"
    elif not revision or revision in {"latest", "main", "master"}:
        yield f"its revision is {revision or 'not given'}"


@rule(
    MODEL_SERVICE,
    severity=SHARED,
    why="A licence may forbid commercial use, large user bases or some fields of use: someone has"
    " to read it first.",
    fix="Have the licence read and add it to `allowed_licenses` in policies/settings.yaml, or use"
    " another model. Where it is missing, add `license` to the model's file.",
)
def license_not_allowed(model: Resource) -> Iterator[str]:
    """A model's licence has been accepted"""
    if _loads_no_weights(model):
        return
    license_name = text(model.props, "license")
    if license_name not in model.settings.allowed_licenses:
        yield f"is under {license_name}"


@rule(
    MODEL_SERVICE,
    severity=SHARED,
    why="The engine would run code from the model's repository, with the engine's permissions.",
    fix="Use an architecture that the engine knows, or waive this after reading the code at the"
    " pinned revision.",
)
def remote_code(model: Resource) -> Iterator[str]:
    """No engine runs code from a model's repository"""
    require(model.props, "engine.engine_args")
    arguments = mapping(model.props, "engine.engine_args")
    for name in ("trust_remote_code", "trust-remote-code"):
        if flag_or_none(arguments, name):
            yield "trusts code from the model's repository"


def _loads_no_weights(model: Resource) -> bool:
    """Whether its engine is simulated."""
    require(model.props, "source")
    return not mapping(model.props, "source")
