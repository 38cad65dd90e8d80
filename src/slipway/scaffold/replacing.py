"""What a new stack file keeps of the one that it replaces: all that opens secrets, and the secrets.

Without its keys Pulumi can no longer decrypt the state of an environment that was brought up.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from .text import dumped, loaded

CONFIG = "config"
SECURE = "secure"  # `{secure: …}` is an encrypted value
SALT, PROVIDER = "encryptionsalt", "secretsprovider"


def kept(text: str, before: str) -> str:
    """The text with every key of the file `before` besides `config`, and every `secure` value.
    Both are valid YAML with mappings at the top."""
    new, old = loaded(text), loaded(before) or {}
    others = {key: value for key, value in old.items() if key != CONFIG}
    if not others and not _has_secret(old):
        return text
    if PROVIDER in others and SALT not in others:
        new.pop(SALT, None)  # the provider's key is the one in use
    new.update(others)
    if isinstance(old.get(CONFIG), dict):
        _keep_secrets(new[CONFIG], old[CONFIG])
    return dumped(new)


def _keep_secrets(new: MutableMapping[str, Any], old: Mapping[str, Any]) -> None:
    for key, value in old.items():
        if not _has_secret(value):
            continue
        inside = new.get(key)
        if SECURE not in value and isinstance(inside, dict) and isinstance(value, dict):
            _keep_secrets(inside, value)
        else:
            new[key] = value


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return SECURE in value or any(_has_secret(each) for each in value.values())
    return isinstance(value, list) and any(_has_secret(each) for each in value)
