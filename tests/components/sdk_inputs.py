"""Inputs of recorded resources against the classes of Pulumi's SDK that declare them."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

import pulumi
from pulumi import _types

from stacks.recording import SECRET, SIGNATURE, UNKNOWN, Registration

PROVIDERS = "pulumi:providers:"
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def deviations(found: Registration) -> Iterator[str]:
    """Keys that the class does not have, required ones that are missing, and values of another
    type; values that are not known yet have every type."""
    inputs = found.inputs
    if found.type.startswith(PROVIDERS):  # on the wire, all their inputs are texts
        inputs = {key: _as_json(value) for key, value in inputs.items()}
    yield from _of_object(found.name, inputs, arguments_of(found.type))


def _as_json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text  # which is a secret
    except ValueError:
        return text


def arguments_of(type_: str) -> type:
    """The class of a resource's inputs: "aws:ec2/instance:Instance" -> InstanceArgs."""
    if type_.startswith(PROVIDERS):
        package, module, name = type_.removeprefix(PROVIDERS), "provider", "Provider"
    else:
        package, place, name = type_.split(":")
        module = f"{place.partition('/')[0]}.{WORD.sub('_', name).lower()}"
    home = importlib.import_module(f"pulumi_{package}.{module}")
    # The longer name is that of a resource of which some nested input has the shorter one.
    found: type = getattr(home, f"{name}InitArgs", None) or getattr(home, f"{name}Args")
    return found


def _of_object(where: str, values: Mapping[str, Any], declared: type) -> Iterator[str]:
    names = _types.input_type_py_to_pulumi_names(declared)
    wanted = _types.input_type_types(declared)
    for key, value in values.items():
        if key in wanted:
            yield from _of_value(f"{where}.{key}", value, wanted[key])
        elif not key.startswith("__"):
            yield f"{where}.{key} is not an input of {declared.__name__}"
    for parameter in inspect.signature(declared.__init__).parameters.values():  # type: ignore[misc]
        key = names.get(parameter.name, parameter.name)
        required = (
            parameter.name not in ("self", "__self__") and parameter.default is parameter.empty
        )
        if required and key not in values:
            yield f"{where}.{key} is required by {declared.__name__}"


def _of_value(where: str, value: Any, declared: Any) -> Iterator[str]:
    if value == UNKNOWN or (isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET):
        return
    choices = [*_plain_types(declared)]
    objects = [each for each in choices if isinstance(each, type) and _types.is_input_type(each)]
    lists = [get_args(each) for each in choices if get_origin(each) in LISTS]
    maps = [get_args(each) for each in choices if get_origin(each) in MAPS]
    if isinstance(value, Mapping) and objects:
        yield from _of_object(where, value, objects[0])
    elif isinstance(value, Mapping) and maps:
        for key, each in value.items():
            yield from _of_value(f"{where}.{key}", each, maps[0][1])
    elif isinstance(value, list) and lists:
        for number, each in enumerate(value):
            yield from _of_value(f"{where}[{number}]", each, lists[0][0])
    elif not _is_scalar_of(value, choices):
        yield f"{where} is {value!r}, and its type is {declared}"


LISTS = (list, collections.abc.Sequence)
MAPS = (dict, collections.abc.Mapping)


def _plain_types(declared: Any) -> Iterator[Any]:
    """Without what stands for None, outputs and awaitables."""
    if get_origin(declared) in (Union, type(int | str)):
        for each in get_args(declared):
            yield from _plain_types(each)
    elif declared is not type(None) and get_origin(declared) is not pulumi.Output:
        yield declared


def _is_scalar_of(value: Any, choices: list[Any]) -> bool:
    """All numbers on the wire are floats; an enum of the SDK is a text."""
    if isinstance(value, bool):
        return bool in choices
    if isinstance(value, float):
        return float in choices or (int in choices and value.is_integer())
    texts = [each for each in choices if isinstance(each, type) and issubclass(each, str)]
    return isinstance(value, str) and bool(texts)
