"""Everything the planner needs, read from a checkout once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.architectures.model_files import named_architectures
from slipway.config.artifacts import Artifacts, read_artifacts
from slipway.config.calibration import CalibrationSettings, load_calibration
from slipway.config.catalog import Catalog, load_catalog
from slipway.config.environment import Environment
from slipway.config.errors import ConfigError, Problem, raise_if_any
from slipway.config.files import (
    calibration_file,
    deployed_models,
    given_environment,
    load_environment,
    load_models,
    written_values,
)
from slipway.config.fleet import FleetSettings
from slipway.config.load import Load, TracedLoad
from slipway.config.machine import MachineFacts, read_machine
from slipway.config.model import Model
from slipway.config.security import OwnAuthority
from slipway.config.ssh import read_host_keys
from slipway.config.trace import read_trace
from slipway.config.what_if import Change

if TYPE_CHECKING:
    from slipway.certificates.own_authority import ReadAuthority
    from slipway.certificates.public_certificate import PublicCertificate


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
        """Why the signing authority has no usable key."""
        return [each.no_key for each in self._signer if each.no_key]

    @property
    def not_valid(self) -> list[Problem]:
        """Why nobody would accept the signing authority's certificates now."""
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
            else given_environment(root, environment, values)
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
    # Its library takes time to load.
    from slipway.certificates.own_authority import read_authorities  # noqa: PLC0415

    written = written_values(root, environment.name)
    return read_authorities(root, environment, written=written, decrypted=values or {})


def _certificate(root: Path, environment: Environment) -> PublicCertificate | None:
    settings = environment.settings.gateway.certificate
    if settings is None:
        return None
    # Its library takes time to load.
    from slipway.certificates.public_certificate import read_public_certificate  # noqa: PLC0415

    now = datetime.datetime.now(datetime.UTC)
    return read_public_certificate(root, settings, environment.origin, now=now)


def _host_keys(root: Path, environment: Environment) -> Mapping[str, str]:
    settings = environment.settings
    if not isinstance(settings, FleetSettings) or settings.ssh is None:
        return {}
    return read_host_keys(root / settings.ssh.known_hosts)


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
