"""A lock in Consul: of all control planes one computes weights.

Its session ends if it is not renewed, so that one that hangs loses the lock. When it comes back,
its writes are refused: each asserts in the same transaction that the lock is still its own.
https://developer.hashicorp.com/consul/api-docs/txn
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

import aiohttp

TTL_S = 10  # Consul's minimum; a session may live twice as long
_TIMEOUT = aiohttp.ClientTimeout(total=5)  # a session has to be renewed in time
_TRANSACTION_SIZE = 60  # Consul allows 64 operations


class Lock:
    def __init__(self, session: aiohttp.ClientSession, key: str, holder: str) -> None:
        self._http = session
        self._key = key
        self._holder = holder
        self._id = ""  # of the session in Consul

    async def held(self) -> bool:
        """Renews the lock, or tries to get it. Raises aiohttp.ClientError."""
        if self._id and not await self._renewed():
            self._id = ""
        if not self._id:
            self._id = await self._created()
        return bool(await self._put(f"/v1/kv/{self._key}?acquire={self._id}", b""))

    async def write(self, values: Mapping[str, str], deleted: Collection[str]) -> bool:
        """Sets and deletes keys as long as the lock is held; False once it is not. Raises
        aiohttp.ClientError."""
        own = {"KV": {"Verb": "check-session", "Key": self._key, "Session": self._id}}
        sets = ({"KV": {"Verb": "set", "Key": k, "Value": _base64(v)}} for k, v in values.items())
        deletes = ({"KV": {"Verb": "delete", "Key": key}} for key in deleted)
        operations = iter([*sets, *deletes])
        while part := list(islice(operations, _TRANSACTION_SIZE)):
            body = json.dumps([own, *part])
            async with self._http.put("/v1/txn", data=body, timeout=_TIMEOUT) as response:
                if response.status == HTTPStatus.CONFLICT:
                    return False
                response.raise_for_status()
        return True

    async def release(self) -> None:
        """Raises aiohttp.ClientError."""
        if self._id:
            await self._put(f"/v1/session/destroy/{self._id}", b"")
            self._id = ""

    async def _created(self) -> str:
        # No delay: a holder of before cannot write, as its writes say who holds the lock.
        asked = {"Name": self._holder, "TTL": f"{TTL_S}s", "LockDelay": "0s"}
        created = await self._put("/v1/session/create", json.dumps(asked).encode())
        return str(created["ID"])

    async def _renewed(self) -> bool:
        path = f"/v1/session/renew/{self._id}"
        async with self._http.put(path, timeout=_TIMEOUT) as response:
            if response.status == HTTPStatus.NOT_FOUND:
                return False
            response.raise_for_status()
            return True

    async def _put(self, path: str, body: bytes) -> Any:
        async with self._http.put(path, data=body, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            return await response.json()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
