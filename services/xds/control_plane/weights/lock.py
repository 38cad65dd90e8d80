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
_TRANSACTION_SIZE = 16  # Consul allows 64 operations, and 512 KiB in all


class RefusedError(Exception):
    """Consul has not made a transaction; the message says why."""


class Lock:
    def __init__(self, http: aiohttp.ClientSession, key: str, holder: str) -> None:
        self._http = http
        self._key = key
        self._holder = holder
        self._session_id = ""  # of the session in Consul

    async def held(self) -> bool:
        """Renews the lock, or tries to get it. Raises aiohttp.ClientError and
        asyncio.TimeoutError."""
        if self._session_id and not await self._renewed():
            self._session_id = ""
        if not self._session_id:
            self._session_id = await self._created()
        return bool(await self._put(f"/v1/kv/{self._key}?acquire={self._session_id}", b""))

    async def write(self, values: Mapping[str, str], deleted: Collection[str]) -> None:
        """Sets and deletes keys. Raises RefusedError if the lock is not held any more, and as
        `held`."""
        own = {"KV": {"Verb": "check-session", "Key": self._key, "Session": self._session_id}}
        sets = ({"KV": {"Verb": "set", "Key": k, "Value": _base64(v)}} for k, v in values.items())
        deletes = ({"KV": {"Verb": "delete", "Key": key}} for key in deleted)
        operations = iter([*sets, *deletes])
        while part := list(islice(operations, _TRANSACTION_SIZE)):
            body = json.dumps([own, *part])
            async with self._http.put("/v1/txn", data=body, timeout=_TIMEOUT) as response:
                if response.status == HTTPStatus.CONFLICT:
                    raise RefusedError((await response.text()).strip()[:200])
                response.raise_for_status()

    async def release(self) -> None:
        """Raises as `held`."""
        if self._session_id:
            await self._put(f"/v1/session/destroy/{self._session_id}", b"")
            self._session_id = ""

    async def _created(self) -> str:
        # No delay: a holder of before cannot write, as its writes say who holds the lock.
        asked = {"Name": self._holder, "TTL": f"{TTL_S}s", "LockDelay": "0s"}
        created = await self._put("/v1/session/create", json.dumps(asked).encode())
        return str(created["ID"])

    async def _renewed(self) -> bool:
        path = f"/v1/session/renew/{self._session_id}"
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
