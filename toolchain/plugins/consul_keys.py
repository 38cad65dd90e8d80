"""consul:index/keys:Keys: values in Consul's key-value store, and the `consul` provider."""

# ruff: noqa: ARG002 - the interface defines the signatures

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolchain.plugins.json_api import JsonApi, setting
from toolchain.plugins.resource import Difference, Operation, Resource, State
from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown

TOKEN = "consul:index/keys:Keys"  # noqa: S105
RESOURCE_ID = "consul"
KEY_DEFAULTS = {"default": "", "delete": False, "flags": 0, "name": "", "value": ""}
PLACE = ("datacenter", "namespace", "partition")


class ConsulKeys(Resource):
    """A set of keys. Those with `delete` are deleted with the resource; the others stay in
    Consul."""

    def __init__(self, api: JsonApi, datacenter: str) -> None:
        self._api = api
        self._datacenter = datacenter

    def check(self, inputs: Properties) -> dict[str, str]:
        keys = inputs.get("keys") or []
        if not is_unknown(keys) and any(key.get("name") for key in keys):
            return {"keys": "the registry-only consul plugin writes keys only: leave out `name`"}
        return {}

    def diff(self, old: State, new: Properties) -> Difference:
        # An omitted datacenter or namespace is the recorded one.
        moved = {name for name in PLACE if name in new and new[name] != old.outputs.get(name)}
        changed = set(moved)
        if is_unknown(new.get("keys")) or _by_path(old.outputs) != _by_path(new):
            changed.add("keys")
        if new.get("token") != old.outputs.get("token"):
            changed.add("token")
        return Difference(changed=changed, replaces=moved)

    def planned(self, new: Properties, old: State | None) -> Properties:
        unknown = {"datacenter": UNKNOWN, "var": UNKNOWN}
        return {**unknown, **(_place(old) if old else {}), **new, "keys": _keys(new)}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        return RESOURCE_ID, self._write({}, new)

    def read(self, old: State) -> State:
        """The id of an import does not name keys; the update that follows writes the declared
        ones."""
        keys = [{**key, **self._get(key, old.outputs)} for key in _keys(old.outputs)]
        return State(id=old.id, inputs=old.inputs, outputs={**old.outputs, "keys": keys})

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        return self._write(old.outputs, {**_place(old), **new})

    def delete(self, old: State, operation: Operation) -> None:
        api, query = self._at(old.outputs)
        for key in _keys(old.outputs):
            if key["delete"]:
                api.json("DELETE", _address(key), query)

    def _write(self, old: Properties, new: Properties) -> Properties:
        """Write what differs, then delete what is no longer listed, so that a renamed key is never
        missing."""
        place = new if new.get("datacenter") else {**new, "datacenter": self._own_datacenter()}
        api, query = self._at(place)
        before, after = _by_path(old), _by_path(new)
        for path, key in after.items():
            if before.get(path) != key:
                flagged = {**query, "flags": str(key["flags"])}
                api.json("PUT", _address(key), flagged, str(key["value"]).encode())
        for path, key in before.items():
            if path not in after and key["delete"]:
                api.json("DELETE", _address(key), query)
        return {**place, "keys": _keys(new), "var": {}}

    def _get(self, key: Mapping[str, Any], place: Properties) -> Properties:
        """The value and flags in Consul; a missing key has an empty value."""
        api, query = self._at(place)
        found = api.json_if_there("GET", _address(key), query)
        if found is None:
            return {"value": key["default"], "flags": 0}
        (entry,) = found
        value = base64.b64decode(entry["Value"] or "").decode(errors="replace")
        return {"value": value or key["default"], "flags": entry["Flags"]}

    def _at(self, place: Properties) -> tuple[JsonApi, dict[str, str]]:
        """The API with the token of a set of keys, and the query for their place."""
        api = replace(self._api, token=place.get("token") or self._api.token)
        names = {"dc": "datacenter", "ns": "namespace", "partition": "partition"}
        return api, {key: str(place.get(name) or "") for key, name in names.items()}

    def _own_datacenter(self) -> str:
        """The configured datacenter, else the agent's own."""
        if self._datacenter:
            return self._datacenter
        return str(self._api.json("GET", "/v1/agent/self")["Config"]["Datacenter"])


def _address(key: Mapping[str, Any]) -> str:
    return f"/v1/kv/{key['path']}"


def _keys(properties: Properties) -> Any:
    """The keys with every default filled in, or the unknown that stands for them."""
    keys = properties.get("keys") or []
    return [{**KEY_DEFAULTS, **key} for key in keys] if isinstance(keys, list) else keys


def _by_path(properties: Properties) -> dict[str, Mapping[str, Any]]:
    return {key["path"]: key for key in _keys(properties)}


def _place(old: State) -> Properties:
    return {name: old.outputs[name] for name in PLACE if name in old.outputs}


CONFIG_KEYS = frozenset({"address", "datacenter", "scheme", "token"})


def resources(config: Properties) -> Mapping[str, Resource]:
    """The `consul` provider."""
    address = setting(config, "address", "CONSUL_HTTP_ADDR", default="127.0.0.1:8500")
    scheme = setting(config, "scheme", "CONSUL_SCHEME", default="http")
    api = JsonApi(
        address=address if "://" in address else f"{scheme}://{address}",
        token_header="X-Consul-Token",  # noqa: S106
        token=setting(config, "token", "CONSUL_HTTP_TOKEN", "CONSUL_TOKEN"),
    )
    return {TOKEN: ConsulKeys(api, setting(config, "datacenter"))}
