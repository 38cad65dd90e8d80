"""consul:index/keys:Keys: values in Consul's key-value store, and the `consul` provider."""

import base64
from collections.abc import Mapping
from typing import Any

from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.resource import Difference, Operation, Resource, State
from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown

RESOURCE_ID = "consul"
KEY_DEFAULTS = {"default": "", "delete": False, "flags": 0, "name": "", "value": ""}


class ConsulKeys(Resource):
    """A set of keys in the agent's datacenter. Those with `delete` are deleted with the resource;
    the others stay in Consul."""

    kind = "consul:index/keys:Keys"
    unsupported = ("datacenter", "namespace", "partition", "token")

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        failures, keys = super().check(inputs), inputs.get("keys") or []
        if not is_unknown(keys) and any(key.get("name") for key in keys):
            failures["keys"] = "the registry-only consul plugin writes keys only: leave out `name`"
        return failures

    def diff(self, old: State, new: Properties) -> Difference:
        same = not is_unknown(new.get("keys")) and _by_path(old.outputs) == _by_path(new)
        return Difference(changed=set() if same else {"keys"})

    def planned(self, new: Properties, old: State | None) -> Properties:
        datacenter = old.outputs.get("datacenter", UNKNOWN) if old else UNKNOWN
        return {"datacenter": datacenter, "var": UNKNOWN, "keys": _keys(new)}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        return RESOURCE_ID, self._write({}, new)

    def read(self, old: State) -> State:
        """The id of an import does not name keys; the update that follows writes the declared
        ones."""
        query = _query(old.outputs)
        keys = [{**key, **self._get(key, query)} for key in _keys(old.outputs)]
        return State(id=old.id, inputs=old.inputs, outputs={**old.outputs, "keys": keys})

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        return self._write(old.outputs, new)

    def delete(self, old: State, operation: Operation) -> None:
        for key in _keys(old.outputs):
            if key["delete"]:
                self._api.json("DELETE", _address(key), _query(old.outputs))

    def _write(self, old: Properties, new: Properties) -> Properties:
        """Write what differs, then delete what is no longer listed, so that a renamed key is never
        missing."""
        datacenter = old.get("datacenter") or self._own_datacenter()
        outputs = {"datacenter": datacenter, "keys": _keys(new), "var": {}}
        query, before, after = _query(outputs), _by_path(old), _by_path(new)
        for path, key in after.items():
            if before.get(path) != key:
                flagged = {**query, "flags": str(key["flags"])}
                self._api.json("PUT", _address(key), flagged, str(key["value"]).encode())
        for path, key in before.items():
            if path not in after and key["delete"]:
                self._api.json("DELETE", _address(key), query)
        return outputs

    def _get(self, key: Mapping[str, Any], query: Mapping[str, str]) -> Properties:
        """The value and flags in Consul; a missing key has an empty value."""
        found = self._api.json_if_there("GET", _address(key), query)
        if found is None:
            return {"value": key["default"], "flags": 0}
        (entry,) = found
        value = base64.b64decode(entry["Value"] or "").decode(errors="replace")
        return {"value": value or key["default"], "flags": entry["Flags"]}

    def _own_datacenter(self) -> str:
        return str(self._api.json("GET", "/v1/agent/self")["Config"]["Datacenter"])


def _address(key: Mapping[str, Any]) -> str:
    return f"/v1/kv/{key['path']}"


def _query(outputs: Properties) -> dict[str, str]:
    return {"dc": str(outputs.get("datacenter") or "")}


def _keys(properties: Properties) -> Any:
    """The keys with every default filled in, or the unknown that stands for them."""
    keys = properties.get("keys") or []
    return [{**KEY_DEFAULTS, **key} for key in keys] if isinstance(keys, list) else keys


def _by_path(properties: Properties) -> dict[str, Mapping[str, Any]]:
    return {key["path"]: key for key in _keys(properties)}
