"""What is secret in a preview, and how it stays out of texts.

The engine masks what it knows to be secret. What follows is the second line: property values are
shown from an allow-list only (shown.py), and whatever stood in a secret's place is taken out of
every free text, too.
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
SHORTEST_SECRET = 6  # what is shorter is a word of its own in too many places

_SECRET_KEY = re.compile(
    r"pass(word|phrase|wd)|secret|(?<!per_)token(?!s$|s_)|credential|private_?key|api_?key|authorization"
    r"|stdin|SLIPWAY_SECRETS|encryptionsalt",
    re.IGNORECASE,
)


@functools.lru_cache(maxsize=4096)  # a preview asks of the same few names a million times
def is_secret_key(key: str) -> bool:
    """Whether a property of this name holds secrets, to go by its name."""
    return bool(_SECRET_KEY.search(key))


def is_secret(value: Any) -> bool:
    """Whether a value is a secret, or the mask of one."""
    if isinstance(value, dict):
        return value.get(SIGNATURE_KEY) == SECRET_SIGNATURE
    return isinstance(value, str) and (MASK in value or SECRET_SIGNATURE in value)


def secret_texts(value: Any, *, inside: bool = False) -> list[str]:
    """Every text in `value` that stands where a secret belongs; of a document also its parts."""
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


_CONTAINERS = (dict, list)  # made once: this is asked of every value of a preview


def _with_parts(text: str) -> Iterator[str]:
    if len(text) >= SHORTEST_SECRET:
        yield text
    if text[:1] in ('"', "{", "["):
        try:
            document = read_json(text)
        except ValueError:
            return
        yield from secret_texts(document, inside=True)
