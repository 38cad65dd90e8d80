"""Everything the planner needs, read from a checkout once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .artifacts import Artifacts, read_artifacts
from .calibration import CalibrationSettings, load_calibration
from .catalog import Catalog, load_catalog
from .document import Document, Origin, read_document
from .environment import NAMESPACE, Environment, FleetSettings, parse_environment
from .errors import ConfigError, Problem, raise_if_any, suggestion
from .hosts import ListedHost
from .hub.model_files import named_architectures
from .inventory import read_inventory
from .load import Load, TracedLoad
from .machine import MachineFacts, read_machine
from .model import Model, parse_model
from .security import OwnAuthority
from .ssh import read_host_keys
from .trace import read_trace
from .what_if import Change, blamed, changed, of_environment, of_model, unmatched

if TYPE_CHECKING:
    from .own_authority import ReadAuthority
    from .public_certificate import PublicCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """`models` are those the environment deploys, by name; `traces` are the loads of models whose
    load is a trace file; `calibration` holds the environment's measurements, if any; `host_keys`
    are the public keys of owned machines, by address; `own_authorities` are those that the user
    brings, by their places in slipway:security.authorities; `certificate` is what clients are
    shown."""

    environment: Environment
    models: Mapping[str, Model]
    catalog: Catalog
    artifacts: Artifacts
    machine: MachineFacts
    traces: Mapping[str, Load] = field(default_factory=dict)
    calibration: CalibrationSettings | None = None
    host_keys: Mapping[str, str] = field(default_factory=dict)
    own_authorities: Mapping[int, ReadAuthority] = field(default_factory=dict)
    certificate: PublicCertificate | None = None

    @property
    def without_key(self) -> list[Problem]:
        """Why the authority that signs cannot."""
        return [each.no_key for each in self._signer if each.no_key]

    @property
    def not_valid(self) -> list[Problem]:
        """Why nobody would accept now what the authority that signs has signed."""
        return [each.not_valid for each in self._signer if each.not_valid]

    @property
    def _signer(self) -> Sequence[ReadAuthority]:
        return [each for place, each in self.own_authorities.items() if place == 0]


def load_inputs(
    root: Path,
    environment: str,
    *,
    values: Mapping[str, Any] | None = None,
    changes: Sequence[Change] = (),
) -> PlanInputs:
    """Read the inputs of a plan from the checkout at `root`, and the gateway's certificate.

    `values` is the configuration that Pulumi passes to its program. Without it the stack file is
    read, and `changes` (from --what-if) replace values in it and in the model files. Raises
    ConfigError with the problems of all files.
    """
    inputs = load_inputs_without_certificate(root, environment, values=values, changes=changes)
    return replace(inputs, certificate=_certificate(root, inputs.environment))


def load_inputs_without_certificate(
    root: Path,
    environment: str,
    *,
    values: Mapping[str, Any] | None = None,
    changes: Sequence[Change] = (),
) -> PlanInputs:
    """`load_inputs` for what does not concern the gateway's clients: an expired certificate, or a
    key that is on another machine, must not prevent it."""
    problems: list[Problem] = []
    chosen: Environment | None = None
    library: Mapping[str, Model] = {}
    folder = "models"
    try:
        chosen = (
            load_environment(root, environment, changes)
            if values is None
            else _parsed(
                root,
                values,
                environment,
                Origin(source=stack_file(environment), namespace=NAMESPACE),
            )
        )
        folder = chosen.settings.models_dir
    except ConfigError as error:
        problems.extend(error.problems)
    try:
        library = load_models(root, folder, changes)
    except ConfigError as error:
        problems.extend(error.problems)
    if chosen is None or problems:
        raise ConfigError(problems)
    models, catalog = deployed_models(chosen, library), load_catalog(root)
    named = named_architectures(root, models.values(), catalog.models)
    catalog = replace(catalog, models={**catalog.models, **named})
    measured = calibration_file(root, environment)
    return PlanInputs(
        environment=chosen,
        models=models,
        catalog=catalog,
        artifacts=read_artifacts(root),
        machine=read_machine(),
        traces=_traces(root, models),
        calibration=load_calibration(measured, catalog) if measured.exists() else None,
        host_keys=_host_keys(root, chosen),
        own_authorities=_own_authorities(root, chosen, values),
    )


def _own_authorities(
    root: Path, environment: Environment, values: Mapping[str, Any] | None
) -> Mapping[int, ReadAuthority]:
    listed = environment.settings.security.authorities
    if not any(isinstance(each, OwnAuthority) for each in listed):
        return {}
    from .own_authority import read_authorities  # noqa: PLC0415 - its library takes time to load

    in_file = (root / stack_file(environment.name)).exists()
    written = _stack_document(root, environment.name).values["config"] if in_file else {}
    return read_authorities(root, environment, written=written, decrypted=values or {})


def _certificate(root: Path, environment: Environment) -> PublicCertificate | None:
    settings = environment.settings.gateway.certificate
    if settings is None:
        return None
    from .public_certificate import read_public_certificate  # noqa: PLC0415 - its library, too

    now = datetime.datetime.now(datetime.UTC)
    return read_public_certificate(root, settings, environment.origin, now=now)


def _host_keys(root: Path, environment: Environment) -> Mapping[str, str]:
    settings = environment.settings
    if not isinstance(settings, FleetSettings) or settings.ssh is None:
        return {}
    return read_host_keys(root / settings.ssh.known_hosts)


def calibration_file(root: Path, environment: str) -> Path:
    """The file of an environment's measured rows; the first calibration creates it."""
    return root / "calibration" / f"{environment}.yaml"


def _traces(root: Path, models: Mapping[str, Model]) -> dict[str, Load]:
    """The traces by model; each file is read once.

    Raises ConfigError with the problems of all files.
    """
    read: dict[TracedLoad, Load] = {}
    problems: list[Problem] = []
    loads = {name: model.settings.load for name, model in models.items()}
    traced = {name: load for name, load in loads.items() if isinstance(load, TracedLoad)}
    for name, load in traced.items():
        if load in read:
            continue
        try:
            read[load] = read_trace(root / load.trace, load, models[name].origin)
        except ConfigError as error:  # a broken trace shared by two models is reported once
            problems += [each for each in error.problems if each not in problems]
    raise_if_any(problems)
    return {name: read[load] for name, load in traced.items()}


def stack_file(environment: str) -> str:
    return f"Pulumi.{environment}.yaml"


def file_of_host(root: Path, environment: str, host: str) -> str:
    """The file in which somebody has to change a host that is listed: the inventory or the stack
    file. Raises ConfigError."""
    settings = load_environment(root, environment).settings
    inventory = settings.inventory if isinstance(settings, FleetSettings) else None
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
