# mypy: disable-error-code="import-untyped"
"""The gateway's filter (resources/request.lua) in LuaJIT, without Envoy around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane.resources.listener import request_lua
from control_plane.resources.load_balancing import KEY_HEADER
from control_plane.resources.routes import MODEL_HEADER, NO_MODEL, STREAM_HEADER, UNKNOWN_HEADER
from lupa import luajit21

_HARNESS = """
function run(source, callbacks)
  local headers, log = callbacks.headers, {}
  local handle = {}
  function handle:headers()
    return {
      get = function(_, name) return callbacks.get(name) end,
      add = function(_, name, value) callbacks.set(name, value) end,
      replace = function(_, name, value) callbacks.set(name, value) end,
    }
  end
  function handle:body()
    local text = callbacks.body()
    if text == nil then return nil end
    return {
      length = function() return #text end,
      getBytes = function(_, first, count) return text:sub(first + 1, first + count) end,
    }
  end
  function handle:clearRouteCache() end
  function handle:metadata()
    return {get = function(_, name) return callbacks.metadata(name) end}
  end
  function handle:streamInfo()
    return {
      dynamicMetadata = function()
        return {
          get = function() return nil end,
          set = function(_, _, name, value) callbacks.note(name, value) end,
        }
      end,
    }
  end
  envoy_on_request(handle)
end
"""


@dataclass
class Seen:
    """What the filter has told the routes; `source` is what the key was made of."""

    headers: dict[str, str]
    source: str = ""

    @property
    def model(self) -> str | None:
        """None if the request names none."""
        model = self.headers[MODEL_HEADER]
        return None if model == NO_MODEL else model

    @property
    def unknown(self) -> bool:
        return UNKNOWN_HEADER in self.headers

    @property
    def streams(self) -> bool:
        return STREAM_HEADER in self.headers

    @property
    def key(self) -> str | None:
        return self.headers.get(KEY_HEADER)


@dataclass
class Filter:
    """One worker of Envoy. `models` have the routing that the routes tell the filter."""

    models: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"tiny": PREFIX})

    def __post_init__(self) -> None:
        self._lua = luajit21.LuaRuntime(encoding=None)
        self._lua.execute(request_lua().encode())
        self._lua.execute(_HARNESS.encode())
        self._run: Callable[..., None] = self._lua.globals()[b"run"]

    def post(self, body: bytes | None, **headers: str) -> Seen:
        """A request with a JSON body; of header names `_` is `-`."""
        return self.request(
            {
                ":method": "POST",
                ":path": "/v1/chat/completions",
                "content-type": "application/json",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
            body,
        )

    def chat(self, *contents: str, model: str = "tiny", **members: Any) -> Seen:
        """A conversation: a system prompt, then the user and the assistant in turns."""
        roles = ["system", *["user", "assistant"] * len(contents)]
        messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
        return self.post(json.dumps({"messages": messages, "model": model, **members}).encode())

    def request(self, headers: Mapping[str, str], body: bytes | None = None) -> Seen:
        seen = Seen({MODEL_HEADER: NO_MODEL, **headers})

        def get(name: bytes) -> bytes | None:
            value = seen.headers.get(name.decode())
            return None if value is None else value.encode()

        def put(name: bytes, value: bytes) -> None:
            seen.headers[name.decode()] = value.decode()

        def metadata(name: bytes) -> Any:
            routing = self.models.get(seen.headers[MODEL_HEADER])
            if routing is None:
                return None
            value = {"model": seen.headers[MODEL_HEADER], **routing}.get(name.decode())
            return None if value is None else value.encode()

        def note(_: bytes, value: bytes) -> None:
            seen.source = value.decode()

        table = self._lua.table_from(
            {b"get": get, b"set": put, b"body": lambda: body, b"metadata": metadata, b"note": note}
        )
        self._run(None, table)
        return seen


PREFIX = {"key": "prefix"}
