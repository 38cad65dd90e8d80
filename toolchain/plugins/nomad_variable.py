"""nomad:index/variable:Variable."""

import re

from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.resource import Difference, Operation, Resource, State, failing_as
from toolchain.plugins.wire import Properties, is_unknown


class NomadVariable(Resource):
    """Items at a path of a namespace, which are its id together."""

    kind = "nomad:index/variable:Variable"
    defaults = {"namespace": "default"}
    unsupported = ("itemsWo", "itemsWoVersion")

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        failures, path = super().check(inputs), inputs.get("path")
        if not is_unknown(path) and not re.fullmatch("[a-zA-Z0-9_~/-]{1,128}", str(path)):
            failures["path"] = f"{path!r} must have 1 to 128 of the characters a-z A-Z 0-9 - _ ~ /"
        if not inputs.get("items"):
            failures["items"] = "it must be set"
        return failures

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(old.outputs, new)  # a refresh puts there what Nomad has
        return Difference(changed=changed, replaces=changed & {"namespace", "path"})

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        full = self.with_defaults(new)
        variable = {name.capitalize(): full[name] for name in ("path", "namespace", "items")}
        with failing_as(f"creating variable {_id(full)}"):
            self._api.json("PUT", *_place(full), variable)
        return _id(full), full

    def read(self, old: State) -> State | None:
        recorded = super().read(old)
        with failing_as(f"checking for variable {old.id}"):
            found = recorded and self._api.json_if_there("GET", *_place(old.outputs))
        outputs = found and {**old.outputs, "items": found["Items"]}
        return State(id=old.id, inputs=old.inputs, outputs=outputs) if outputs else None

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        return self.create(new, operation)[1]

    def delete(self, old: State, operation: Operation) -> None:
        with failing_as(f"deleting variable {old.id}"):
            self._api.json_if_there("DELETE", *_place(old.outputs))


def _id(variable: Properties) -> str:
    return f"{variable['path']}@{variable['namespace']}"


def _place(variable: Properties) -> tuple[str, dict[str, str]]:
    return f"/v1/var/{variable['path']}", {"namespace": variable["namespace"]}
