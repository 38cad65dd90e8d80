"""The environment that a model joins: its pools, and what its plan says with one more model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slipway.architectures.parameters import count
from slipway.config.dev import DeploymentSettings, DevSettings
from slipway.config.document import Origin
from slipway.config.errors import raise_if_any, suggestion
from slipway.config.files import deployed_models
from slipway.config.fleet import FleetDeploymentSettings
from slipway.config.model import Model, parse_model
from slipway.config.validation import validated
from slipway.inputs import PlanInputs
from slipway.plan.draft import PlatformDraft
from slipway.planner.platform import draft_plan
from slipway.planner.supply.supplies import plan_hosts
from slipway.planner.supply.supply import Supply

from .candidates import can_hold
from .request import RefusedError, Request, Values


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """An environment without the model in question. Its computed parts are kept."""

    inputs: PlanInputs

    @property
    def on_this_machine(self) -> bool:
        return isinstance(self.inputs.environment.settings, DevSettings)

    @cached_property
    def supplies(self) -> Mapping[str, Supply]:
        return plan_hosts(self.inputs).supplies

    @cached_property
    def usd_per_hour(self) -> float:
        return draft_plan(self.inputs).cost.usd_per_hour.value

    @cached_property
    def held(self) -> Mapping[str, tuple[str, ...]]:
        """The models of the catalog that each pool holds when it is empty, the largest first."""
        known = {
            key: each
            for key, each in self.inputs.catalog.models.items()
            if not each.is_read and "/" not in key
        }
        sizes = {key: count(each).total for key, each in known.items()}
        largest_first = sorted(known, key=lambda key: (-sizes[key], key))
        return {
            name: tuple(key for key in largest_first if can_hold(known[key], supply, self.inputs))
            for name, supply in self.supplies.items()
        }

    def serving_pools(self, request: Request) -> Sequence[Supply]:
        """The pools to try: those that are asked for, else those with accelerators, else those that
        the gateway does not need for itself. A simulated engine runs on processors only."""
        if unknown := [each for each in request.pools if each not in self.supplies]:
            raise RefusedError(
                f"the environment has no pool {unknown[0]}",
                fix=suggestion(unknown[0], self.supplies),
            )
        pools = [self.supplies[each] for each in request.pools or self._in_order]
        accelerated = [each for each in pools if each.accelerator is not None]
        if accelerated and not request.simulated:
            return accelerated
        plain = [each for each in pools if each.accelerator is None]
        others = [each for each in plain if not each.holds_gateway]
        return plain if request.pools else others or plain

    @property
    def _in_order(self) -> Sequence[str]:
        return list(self.inputs.environment.settings.pools)

    def joined_by(self, request: Request, model: Values | Model, deployment: Values) -> PlanInputs:
        """The inputs with the model of a file, or of the values of a new one. Raises
        ConfigError."""
        source = f"{self.inputs.environment.settings.models_dir}/{request.name}.yaml"
        file = (
            model if isinstance(model, Model) else parse_model(model, origin=Origin(source=source))
        )
        inputs, weights = self.inputs, request.weights
        environment, catalog = inputs.environment, inputs.catalog
        kind = DeploymentSettings if self.on_this_machine else FleetDeploymentSettings
        origin = environment.origin.under(("models", request.name), namespace="", rename={})
        named = validated(kind, deployment, origin)
        models = {**environment.settings.models, request.name: named}
        settings = environment.settings.model_copy(update={"models": models})
        joined = replace(environment, settings=settings)
        library = {**inputs.models, request.name: file}
        return replace(
            inputs,
            environment=joined,
            models=deployed_models(joined, library),
            catalog=replace(
                catalog, models={**catalog.models, weights.known_as: weights.architecture}
            ),
        )

    def draft(self, inputs: PlanInputs) -> PlatformDraft:
        """Raises ConfigError."""
        problems = inputs.environment.settings.problems(inputs.environment.origin)
        raise_if_any([*problems])
        return draft_plan(inputs)
