"""random:index/randomPassword:RandomPassword.

There is no `bcryptHash`: the standard library has no bcrypt, and nothing here reads the hash.
"""

# ruff: noqa: ARG002 - the interface defines the signatures

import secrets
import string
from collections.abc import Mapping

from toolchain.plugins.resource import Difference, Operation, ProviderError, Resource, State
from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown

TOKEN = "random:index/randomPassword:RandomPassword"  # noqa: S105
RESOURCE_ID = "none"  # as in the official provider: an id must not reveal the secret
SPECIAL = "!@#$%&*()-_=+[]{}<>:?"


class RandomPassword(Resource):
    """A random string from the system's generator; any changed input replaces it."""

    defaults = {  # noqa: RUF012
        "lower": True,
        "minLower": 0,
        "minNumeric": 0,
        "minSpecial": 0,
        "minUpper": 0,
        "number": True,
        "numeric": True,
        "special": True,
        "upper": True,
    }

    def check(self, inputs: Properties) -> dict[str, str]:
        full = self.with_defaults(inputs)
        minimums = [full[name] for name in ("minLower", "minNumeric", "minSpecial", "minUpper")]
        length = full.get("length")
        if is_unknown([length, *minimums]):
            return {}
        if not isinstance(length, int) or length < max(1, sum(minimums)):
            return {"length": f"{length!r} must be at least 1 and at least the sum of the minimums"}
        if not self._classes(inputs):
            return {"length": "every class of characters is switched off"}
        return {}

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(old.inputs, new)
        return Difference(changed=changed, replaces=changed)

    def planned(self, new: Properties, old: State | None) -> Properties:
        return {**self.with_defaults(new), "result": UNKNOWN}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        classes = self._classes(new)
        picked = [secrets.choice(c) for c, minimum in classes for _ in range(minimum)]
        pool = "".join(characters for characters, _ in classes)
        picked += [secrets.choice(pool) for _ in range(new["length"] - len(picked))]
        secrets.SystemRandom().shuffle(picked)
        return RESOURCE_ID, {**self.with_defaults(new), "result": "".join(picked)}

    def read(self, old: State) -> State:
        """An import uses the id as the password. Pulumi keeps that id in its state unencrypted."""
        if old.outputs:
            return old
        inputs = {"length": len(old.id)}
        outputs = {**self.with_defaults(inputs), "result": old.id}
        return State(id=RESOURCE_ID, inputs=inputs, outputs=outputs)

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        raise ProviderError("a password is replaced, never updated")

    def delete(self, old: State, operation: Operation) -> None:
        return

    def _classes(self, inputs: Properties) -> list[tuple[str, int]]:
        """(characters, least number of them) of every class that is switched on."""
        full = self.with_defaults(inputs)
        numeric = full["numeric"] and full["number"]
        special = full.get("overrideSpecial") or SPECIAL
        classes = [
            (full["lower"], string.ascii_lowercase, full["minLower"]),
            (full["upper"], string.ascii_uppercase, full["minUpper"]),
            (numeric, string.digits, full["minNumeric"]),
            (full["special"], special, full["minSpecial"]),
        ]
        return [(characters, minimum) for on, characters, minimum in classes if on]


CONFIG_KEYS = frozenset[str]()


def resources(_config: Properties) -> Mapping[str, Resource]:
    """The `random` provider."""
    return {TOKEN: RandomPassword()}
