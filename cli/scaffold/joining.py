"""Lets models join an environment in memory, one by one, and collects the files to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cli.errors import WRONG_INPUT, CliError
from cli.scaffold.weights import Found
from slipway.config.files import stack_file
from slipway.config.model import Model
from slipway.inputs import PlanInputs
from slipway.scaffold.adding import Addition, add_existing, add_model
from slipway.scaffold.comments import model_title
from slipway.scaffold.model_file import model_text
from slipway.scaffold.names import architecture_key
from slipway.scaffold.request import RefusedError, Request
from slipway.scaffold.surroundings import Surroundings
from slipway.scaffold.text import one_line, with_entry

MODELS = ("config", "slipway:models")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """An environment with its stack file as text. `files` are to be written, by their names in the
    checkout; `library` are the model files that are there."""

    inputs: PlanInputs
    stack_text: str
    library: Mapping[str, Model]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> str:
        return self.inputs.environment.name

    @property
    def models_dir(self) -> str:
        return self.inputs.environment.settings.models_dir

    def existing(self, found: Found) -> Model | None:
        """The file that already serves these weights under this name. CliError where the name is
        taken."""
        name, settings = found.name, self.inputs.environment.settings
        if name in settings.models:
            raise CliError(
                f"{stack_file(self.environment)} already serves a model named {name}",
                fix=f"give another name with --name, such as {name}-2",
                exit_code=WRONG_INPUT,
            )
        file = self.library.get(name)
        if file is None:
            return None
        served = architecture_key(file, self.inputs.catalog.models)
        if served != found.weights.known_as:
            raise CliError(
                f"{file.origin.source} is the file of another model ({served or 'unknown'})",
                fix=f"give another name with --name, such as {name}-2",
                exit_code=WRONG_INPUT,
            )
        if (file.settings.source is None) != (found.weights.source is None):
            raise CliError(
                f"{file.origin.source} has another kind of engine than the one asked for",
                fix=f"give another name with --name, such as {name}-2",
                exit_code=WRONG_INPUT,
            )
        return file


class DoesNotFitError(CliError):
    """The environment has no room for a model as it was asked for."""


def join(workspace: Workspace, found: Found, request: Request) -> tuple[Workspace, Addition]:
    """DoesNotFitError with what would fit, where the model does not."""
    surroundings = Surroundings(inputs=workspace.inputs)
    file = workspace.existing(found)
    try:
        made = (
            add_model(request, surroundings)
            if file is None
            else add_existing(request, file, surroundings)
        )
    except RefusedError as error:
        raise DoesNotFitError(error.message, fix=error.fix, exit_code=WRONG_INPUT) from None
    text = with_entry(workspace.stack_text, MODELS, request.name, one_line(made.deployment))
    files = {**workspace.files, stack_file(workspace.environment): text}
    if made.model is not None:
        title = model_title(found.called, made.planned, simulated=request.simulated)
        files[f"{workspace.models_dir}/{request.name}.yaml"] = model_text(made.model, title)
        files |= {f"{workspace.models_dir}/{name}": text for name, text in found.files.items()}
    joined = replace(workspace, inputs=made.inputs, stack_text=text, files=files)
    return joined, made
