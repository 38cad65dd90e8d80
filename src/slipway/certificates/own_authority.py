"""A certificate authority that the user brings: read from its files, and refused unless it can sign
for the platform."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from slipway.config.document import KeyPath
from slipway.config.environment import Environment
from slipway.config.errors import ConfigError, Problem, raise_if_any
from slipway.config.security import KEY_PLACES, OwnAuthority
from slipway.plan.certificate_names import every_name

from . import pem
from .pem import PemError
from .signing import must_allow, must_sign

HIDDEN = "[secret]"  # an offline preview shows this instead of a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAuthority:
    """PEM texts: `certificate` is the one that signs, `intermediates` are those between what it
    signs and a root. `key` is PKCS #8; "" where it is not known, and then `no_key` says why, or it
    is a secret that only Pulumi can decrypt. `not_valid` is set before and after its time, which
    ends with the first of its certificates."""

    certificate: str
    intermediates: str
    key: str = field(repr=False)
    fingerprint: str  # SHA-256 of the certificate that signs, in hexadecimal
    subject: str
    ends: datetime.datetime
    days_left: int
    no_key: Problem | None
    not_valid: Problem | None


def read_authorities(
    root: Path,
    environment: Environment,
    *,
    written: Mapping[str, Any],
    decrypted: Mapping[str, Any],
    variables: Mapping[str, str] = os.environ,
    now: datetime.datetime | None = None,
) -> Mapping[int, ReadAuthority]:
    """The user's own among the environment's authorities, by their places in its list.

    `written` is the configuration in the stack file, where a secret is `{secure: …}`; `decrypted`
    is what Pulumi hands to its program, and empty elsewhere. Raises ConfigError with every problem
    but those of time, which must keep nobody from a preview or from `down`.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    reader = _Reader(root, environment, written, decrypted, variables, now)
    found: dict[int, ReadAuthority] = {}
    problems: list[Problem] = []
    for index, settings in enumerate(environment.settings.security.authorities):
        if not isinstance(settings, OwnAuthority):
            continue
        try:
            found[index] = reader.read(settings, ("security", "authorities", index))
        except ConfigError as error:
            problems += error.problems
    if len({each.fingerprint for each in found.values()}) < len(found):
        path, fix = ("security", "authorities"), "list each authority once"
        said = "lists the same certificate twice"
        problems.append(environment.origin.problem(path, said, fix=fix))
    raise_if_any(problems)
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Path
    environment: Environment
    written: Mapping[str, Any]
    decrypted: Mapping[str, Any]
    variables: Mapping[str, str]
    now: datetime.datetime

    def read(self, settings: OwnAuthority, path: KeyPath) -> ReadAuthority:
        try:
            chain = pem.certificates(pem.read(self._file(settings.cert)))
            must_sign(chain)
            must_allow(
                chain,
                every_name(self.environment.name),
                ip_network(self.environment.settings.network.cidr),
            )
        except PemError as error:
            raise self._refused((*path, "cert"), settings.cert, error) from None
        key = self._key(settings, path, chain[0])
        ends = min(each.not_valid_after_utc for each in chain)
        return ReadAuthority(
            certificate=pem.written(chain[:1]),
            intermediates=pem.written([each for each in chain if each.issuer != each.subject]),
            key=key if isinstance(key, str) else "",
            fingerprint=chain[0].fingerprint(hashes.SHA256()).hex(),
            subject=pem.subject(chain[0]),
            ends=ends,
            days_left=(ends - self.now).days,
            no_key=None if isinstance(key, str) else key,
            not_valid=self._not_valid(chain, settings, path),
        )

    def _key(
        self, settings: OwnAuthority, path: KeyPath, certificate: x509.Certificate
    ) -> str | Problem:
        """The key, "" if it is hidden here, or why there is none."""
        place = next((name for name in KEY_PLACES if getattr(settings, name)), None)
        if place is None:
            fix = f"add one of {', '.join(KEY_PLACES)}"
            return self._problem(path, settings.cert, "signs, but has no private key", fix)
        path, name = (*path, place), getattr(settings, place)
        try:
            text = self._text(place, name)
            if text is None:
                return self._problem(path, name, *self._absent(place, name))
            if text == HIDDEN:
                return ""
            key = pem.private_key(text)
            pem.must_belong_to(key, certificate)
        except PemError as error:
            raise self._refused(path, name, error) from None
        return pem.written_key(key)

    def _text(self, place: str, name: str) -> str | None:
        """The text of a key; HIDDEN where it cannot be read here, None where it is missing."""
        if place == "key":
            if not self._file(name).exists():
                return None
            text = pem.read(self._file(name))
            pem.must_be_private(self._file(name))
            return text
        if place == "key_variable":
            return self.variables.get(name) or None
        if isinstance(self.written.get(name), str):
            fix = f"replace the key, and set it again: {self._setting(name)}"
            raise PemError("is in plain text in the stack file", fix=fix)
        found: str | None = self.decrypted.get(name)
        return HIDDEN if found is None and name in self.written else found

    def _absent(self, place: str, name: str) -> tuple[str, str]:
        if place == "key":
            return "does not exist", "correct the path, or put the file there"
        if place == "key_variable":
            return "is not set in this shell", f"export {name} with the text of the key's file"
        return "is not in the stack's configuration", self._setting(name)

    def _setting(self, name: str) -> str:
        return f"pulumi config set -s {self.environment.name} --secret {name} < FILE"

    def _not_valid(
        self, chain: Sequence[x509.Certificate], settings: OwnAuthority, path: KeyPath
    ) -> Problem | None:
        for each in chain:
            starts, ends = each.not_valid_before_utc, each.not_valid_after_utc
            if ends <= self.now:
                said = f"has expired: {pem.subject(each)} ended {ends:%Y-%m-%d %H:%M} UTC"
                fix = ""
            elif starts > self.now:
                said = f"is not valid yet: {pem.subject(each)} begins {starts:%Y-%m-%d %H:%M} UTC"
                fix = "wait until then, check this machine's clock, or "
            else:
                continue
            return self._problem(
                (*path, "cert"), settings.cert, said, f"{fix}use a certificate that is valid now"
            )
        return None

    def _file(self, name: str) -> Path:
        return pem.file_in(self.root, name)

    def _problem(self, path: KeyPath, value: Any, message: str, fix: str) -> Problem:
        return self.environment.origin.problem(path, message, value=value, fix=fix)

    def _refused(self, path: KeyPath, value: Any, error: PemError) -> ConfigError:
        return ConfigError([self._problem(path, value, error.message, error.fix)])
