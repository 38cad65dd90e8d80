"""The files of a checkout that an environment is read from: its stack file, and its models'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .document import Document, Origin, read_document
from .environment import NAMESPACE, Environment, parse_environment
from .errors import ConfigError, Problem, raise_if_any, suggestion
from .hosts import ListedHost
from .inventory import read_inventory
from .metal import MetalSettings
from .model import Model, parse_model
from .what_if import Change, blamed, changed, of_environment, of_model, unmatched


def calibration_file(root: Path, environment: str) -> Path:
    """The file of an environment's measured rows; the first calibration creates it."""
    return root / "calibration" / f"{environment}.yaml"


def stack_file(environment: str) -> str:
    return f"Pulumi.{environment}.yaml"


def file_of_host(root: Path, environment: str, host: str) -> str:
    """The file that lists the host: the inventory or the stack file. Raises ConfigError."""
    settings = load_environment(root, environment).settings
    inventory = settings.inventory if isinstance(settings, MetalSettings) else None
    if inventory is not None:
        listed = read_inventory(root / inventory, source=inventory)
        if any(each.host.name == host for each in listed):
            return inventory
    return stack_file(environment)


def load_environment(root: Path, name: str, changes: Sequence[Change] = ()) -> Environment:
    """Read Pulumi.<name>.yaml. Raises ConfigError; problems in the file itself are reported before
    those that `changes` cause."""
    document = _stack_document(root, name)
    values = document.values["config"]
    keys = {key: key.removeprefix(NAMESPACE) for key in map(str, values)}
    problems = [
        document.origin.problem(("config", key), "has no namespace", fix=f"write {NAMESPACE}{key}")
        for key in keys
        if ":" not in key
    ]
    origin = document.origin.under(("config",), namespace=NAMESPACE, rename=keys)
    named = {key: value for key, value in values.items() if ":" in str(key)}
    try:
        environment = _parsed(root, named, name, origin)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    raise_if_any([*problems, *unmatched(named, changes)])
    if not changes:
        return environment
    other = changed(named, of_environment(changes))
    own = [change for change in changes if change.model is None]
    return _parsed(root, other, name, blamed(origin, own))


def given_environment(root: Path, name: str, values: Mapping[str, Any]) -> Environment:
    """The environment from the values that Pulumi passes to its program. Raises ConfigError."""
    return _parsed(root, values, name, Origin(source=stack_file(name), namespace=NAMESPACE))


def written_values(root: Path, name: str) -> Mapping[str, Any]:
    """The configuration in Pulumi.<name>.yaml as it is written, where a secret is `{secure: …}`;
    empty without the file."""
    if not (root / stack_file(name)).exists():
        return {}
    written: Mapping[str, Any] = _stack_document(root, name).values["config"]
    return written


def _parsed(root: Path, values: Mapping[str, Any], name: str, origin: Origin) -> Environment:
    """The environment, with the hosts of the inventory that `values` name. Raises ConfigError."""
    file = values.get(f"{NAMESPACE}inventory")
    hosts: tuple[ListedHost, ...] = ()
    if isinstance(file, str):  # anything else is refused with the other values
        if not (root / file).is_file():
            wrong, fix = "there is no such file in this checkout", "correct the path, or write it"
            raise ConfigError([origin.problem(("inventory",), wrong, value=file, fix=fix)])
        hosts = read_inventory(root / file, source=file)
    return parse_environment(
        values, name=name, source=origin.source, origin=origin, inventory=hosts
    )


def _stack_document(root: Path, name: str) -> Document:
    """The stack file, after checking that its `config` is a mapping."""
    source = stack_file(name)
    if not (root / source).exists():
        known = [path.name.split(".")[1] for path in root.glob("Pulumi.*.yaml")]
        problem = Problem(
            source=source,
            key="",
            message=f'there is no environment "{name}"',
            fix=suggestion(name, known),
        )
        raise ConfigError([problem])
    document = read_document(root / source, source=source)
    values = document.values.get("config")
    if not isinstance(values, Mapping):
        problem = document.origin.problem(
            ("config",),
            "must be a mapping of slipway:<key> to values",
            fix="copy Pulumi.dev.yaml and change it",
            value=values,
        )
        raise ConfigError([problem])
    return document


def load_models(root: Path, folder: str, changes: Sequence[Change] = ()) -> Mapping[str, Model]:
    """Read every *.yaml in the models folder, by model name. Raises ConfigError."""
    models: dict[str, Model] = {}
    problems: list[Problem] = []
    for path in sorted((root / folder).glob("*.yaml")):
        try:
            model = _load_model(path, f"{folder}/{path.name}", changes)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        name = model.settings.name
        if name in models:
            problems.append(
                model.origin.problem(
                    ("name",),
                    f"is already the name of the model in {models[name].origin.source}",
                    value=name,
                    fix="give one of the two another name",
                )
            )
        models.setdefault(name, model)
    raise_if_any(problems)
    return models


def _load_model(path: Path, source: str, changes: Sequence[Change]) -> Model:
    document = read_document(path, source=source)
    model = parse_model(document.values, origin=document.origin)
    own = of_model(changes, model.settings.name)
    if not own:
        return model
    return parse_model(changed(document.values, own), origin=blamed(document.origin, own))


def deployed_models(environment: Environment, library: Mapping[str, Model]) -> Mapping[str, Model]:
    """The models the environment names. Raises ConfigError for unknown ones and shared aliases."""
    names = sorted(environment.settings.models)
    problems = [
        environment.origin.problem(
            ("models", name),
            f"there is no model of this name in {environment.settings.models_dir}/",
            fix=suggestion(name, library),
        )
        for name in names
        if name not in library
    ]
    chosen = {name: library[name] for name in names if name in library}
    raise_if_any([*problems, *_shared_names(chosen)])
    return chosen


def _shared_names(models: Mapping[str, Model]) -> list[Problem]:
    """Refuses models that share a name or alias: the gateway could not tell them apart."""
    owners = {name: model.origin.source for name, model in models.items()}
    problems = []
    for model in models.values():
        for index, alias in enumerate(model.settings.aliases):
            if alias in owners:
                problems.append(
                    model.origin.problem(
                        ("aliases", index),
                        f"is already a name or an alias in {owners[alias]}",
                        value=alias,
                        fix="use another alias",
                    )
                )
            owners.setdefault(alias, model.origin.source)
    return problems
