"""consul:index/keys:Keys: values in Consul's key-value store, and the `consul` provider."""

# ruff: noqa: ARG002 - the signatures are those of the interface

import base64
from collections.abc import Mapping
from typing import Any

from toolchain.plugins.json_api import ApiError, JsonApi, setting
from toolchain.plugins.resource import (
    Difference,
    Operation,
    ProviderError,
    Resource,
    Snapshot,
    unknown_outputs,
)
from toolchain.plugins.server import ProviderDefinition
from toolchain.plugins.wire import Properties, is_unknown

TOKEN = "consul:index/keys:Keys"  # noqa: S105
RESOURCE_ID = "consul"
KEY_DEFAULTS = {"default": "", "delete": False, "flags": 0, "name": "", "value": ""}
PLACE = ("datacenter", "namespace", "partition")


class ConsulKeys(Resource):
    """A set of keys. Those with `delete` go with the resource; the others stay in Consul."""

    def __init__(self, api: JsonApi, datacenter: str) -> None:
        self._api = api
        self._datacenter = datacenter

    def check(self, inputs: Properties) -> dict[str, str]:
        keys = inputs.get("keys") or []
        if not is_unknown(keys) and any(key.get("name") for key in keys):
            return {"keys": "the registry-only consul plugin writes keys only: leave out `name`"}
        return {}

    def diff(
        self, resource_id: str, old_inputs: Properties, old: Properties, new: Properties
    ) -> Difference:
        # A place left out is the one that the state has recorded.
        moved = {name for name in PLACE if name in new and new[name] != old.get(name)}
        changed = set(moved)
        if is_unknown(new.get("keys")) or _by_path(old) != _by_path(new):
            changed.add("keys")
        if new.get("token") != old.get("token"):
            changed.add("token")
        return Difference(changed=frozenset(changed), replaces=frozenset(moved))

    def planned(self, new: Properties, old: Properties | None) -> Properties:
        recorded = {name: (old or {}).get(name) for name in PLACE}
        known = {**recorded, **new, "keys": _keys(new)}
        return {**unknown_outputs("datacenter", "var"), **_without_none(known)}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        return RESOURCE_ID, self._write({}, new)

    def read(self, resource_id: str, inputs: Properties, outputs: Properties) -> Snapshot | None:
        if not outputs:
            raise ProviderError("consul keys cannot be imported")
        keys = [{**key, **self._get(key, outputs)} for key in _keys(outputs)]
        return Snapshot(inputs=inputs, outputs={**outputs, "keys": keys})

    def update(
        self, resource_id: str, old: Properties, new: Properties, operation: Operation
    ) -> Properties:
        recorded = _without_none({name: old.get(name) for name in PLACE})
        return self._write(old, {**recorded, **new})

    def delete(self, resource_id: str, outputs: Properties, operation: Operation) -> None:
        for key in _keys(outputs):
            if key["delete"]:
                self._kv("DELETE", key["path"], outputs)

    def _write(self, old: Properties, new: Properties) -> Properties:
        """Write what differs, then remove what is gone: a renamed key is never missing."""
        place = new if new.get("datacenter") else {**new, "datacenter": self._own_datacenter()}
        before, after = _by_path(old), _by_path(new)
        for path, key in after.items():
            if before.get(path) != key:
                self._kv("PUT", path, place, str(key["value"]).encode(), flags=str(key["flags"]))
        for path, key in before.items():
            if path not in after and key["delete"]:
                self._kv("DELETE", path, place)
        return {**place, "keys": _keys(new), "var": {}}

    def _get(self, key: Mapping[str, Any], place: Properties) -> Properties:
        """The value and flags that Consul has; a missing key has an empty value."""
        try:
            content = self._kv("GET", key["path"], place)
        except ApiError as problem:
            if problem.status != 404:
                raise
            return {"value": key["default"], "flags": 0}
        (entry,) = content
        value = base64.b64decode(entry["Value"] or "").decode(errors="replace")
        return {"value": value or key["default"], "flags": entry["Flags"]}

    def _kv(
        self, method: str, path: str, place: Properties, body: bytes | None = None, flags: str = ""
    ) -> Any:
        query = {
            "dc": str(place.get("datacenter") or self._datacenter),
            "ns": str(place.get("namespace") or ""),
            "partition": str(place.get("partition") or ""),
            "flags": flags,
        }
        token = str(place.get("token") or self._api.token)
        api = JsonApi(address=self._api.address, token_header=self._api.token_header, token=token)
        return api.json(method, f"/v1/kv/{path}", query, body)

    def _own_datacenter(self) -> str:
        """The configured datacenter, else the agent's own."""
        if self._datacenter:
            return self._datacenter
        return str(self._api.json("GET", "/v1/agent/self")["Config"]["Datacenter"])


def _keys(properties: Properties) -> Any:
    """The keys with every default filled in, or the unknown that stands for them."""
    keys = properties.get("keys") or []
    return [{**KEY_DEFAULTS, **key} for key in keys] if isinstance(keys, list) else keys


def _by_path(properties: Properties) -> dict[str, Mapping[str, Any]]:
    return {key["path"]: key for key in _keys(properties)}


def _without_none(properties: Properties) -> Properties:
    return {name: value for name, value in properties.items() if value is not None}


def definition(version: str) -> ProviderDefinition:
    """The `consul` provider."""
    return ProviderDefinition(
        name="consul",
        version=version,
        config_keys=frozenset({"address", "datacenter", "scheme", "token"}),
        resources=_resources,
    )


def _resources(config: Properties) -> Mapping[str, Resource]:
    address = setting(config, "address", "CONSUL_HTTP_ADDR", default="127.0.0.1:8500")
    scheme = setting(config, "scheme", "CONSUL_SCHEME", default="http")
    api = JsonApi(
        address=address if "://" in address else f"{scheme}://{address}",
        token_header="X-Consul-Token",  # noqa: S106
        token=setting(config, "token", "CONSUL_HTTP_TOKEN", "CONSUL_TOKEN"),
    )
    return {TOKEN: ConsulKeys(api, setting(config, "datacenter"))}
