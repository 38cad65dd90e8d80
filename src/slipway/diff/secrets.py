"""Finds secrets in a preview, so that they can be kept out of texts.

The engine masks the secrets it knows. This is the second line of defence: property values are shown
only if they are on an allow-list (shown.py), and any value found in a secret's place is removed
from all free text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from slipway.diff.json_text import read_json

MASK = "[secret]"
# Pulumi's marks on the wire (sdk/go/common/resource/sig): the key, and its value for a secret.
SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  (a public mark)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
UNKNOWN_KEY = "<unknown>"  # of slipway preview --offline
SHORTEST_SECRET = 6  # shorter texts occur as ordinary words in too many places

_SECRET_KEY = re.compile(
    r"pass(word|phrase|wd)|secret|(?<!per_)token(?!s$|s_)|credential|private_?key|api_?key|authorization"
    r"|stdin|SLIPWAY_SECRETS|encryptionsalt",
    re.IGNORECASE,
)


@functools.lru_cache(maxsize=4096)  # a preview asks about the same few names a million times
def is_secret_key(key: str) -> bool:
    """Whether a property holds secrets, judging by its name."""
    return bool(_SECRET_KEY.search(key))


def is_secret(value: Any) -> bool:
    """Whether a value is a secret or a masked one."""
    if isinstance(value, dict):
        return value.get(SIGNATURE_KEY) == SECRET_SIGNATURE
    return isinstance(value, str) and (MASK in value or SECRET_SIGNATURE in value)


def secret_texts(value: Any, *, inside: bool = False) -> list[str]:
    """Every text in `value` in a secret's place; for a document, its parts too."""
    found, waiting = list[str](), [(value, inside)]
    while waiting:
        value, inside = waiting.pop()
        if isinstance(value, dict):
            inside = inside or value.get(SIGNATURE_KEY) == SECRET_SIGNATURE
            for key, item in value.items():
                below = inside or is_secret_key(key)
                if key != SIGNATURE_KEY and item and (below or isinstance(item, _CONTAINERS)):
                    waiting.append((item, below))
        elif isinstance(value, list):
            waiting += [(item, inside) for item in value]
        elif inside and isinstance(value, str) and value not in (MASK, UNKNOWN):
            found += _with_parts(value)
    return found


_CONTAINERS = (dict, list)  # built once, because it is used for every value of a preview


def _with_parts(text: str) -> Iterator[str]:
    if len(text) >= SHORTEST_SECRET:
        yield text
    if text[:1] in ('"', "{", "["):
        try:
            document = read_json(text)
        except ValueError:
            return
        yield from secret_texts(document, inside=True)
