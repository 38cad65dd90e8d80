"""The keyring of a cluster's agents, which their servers change on all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from program.http_json import Api


@dataclass(frozen=True)
class Keys:
    """Key -> how many of `agents` have it."""

    known_to: dict[str, int]
    agents: int


class Keyring(Protocol):
    """Each change raises ApiError unless every living agent has made it."""

    def keys(self) -> Keys: ...

    def install(self, key: str) -> None: ...

    def use(self, key: str) -> None:
        """Encrypt with this key, which is installed."""

    def remove(self, key: str) -> None: ...


@dataclass(frozen=True)
class ConsulKeyring:
    api: Api

    def keys(self) -> Keys:
        (local,) = [each for each in self.api.get(self._path) if not each["WAN"]]
        return Keys(local["Keys"], local["NumNodes"])

    def install(self, key: str) -> None:
        self.api.post(self._path, {"Key": key})

    def use(self, key: str) -> None:
        self.api.put(self._path, {"Key": key})

    def remove(self, key: str) -> None:
        self.api.delete(self._path, {"Key": key})

    _path = "/v1/operator/keyring"


@dataclass(frozen=True)
class NomadKeyring:
    """Of the servers: Nomad's clients do not gossip."""

    api: Api

    def keys(self) -> Keys:
        listed = self.api.get(f"{self._path}/list")
        return Keys(listed["Keys"], listed["NumNodes"])

    def install(self, key: str) -> None:
        self.api.put(f"{self._path}/install", {"Key": key})

    def use(self, key: str) -> None:
        self.api.put(f"{self._path}/use", {"Key": key})

    def remove(self, key: str) -> None:
        self.api.put(f"{self._path}/remove", {"Key": key})

    _path = "/v1/agent/keyring"


KEYRINGS = {"consul": ConsulKeyring, "nomad": NomadKeyring}
