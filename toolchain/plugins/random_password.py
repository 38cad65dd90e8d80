"""random:index/randomPassword:RandomPassword.

There is no `bcryptHash`: the standard library has no bcrypt, and nothing here reads the hash.
"""

import secrets
import string

from toolchain.plugins.resource import Operation, Resource, State
from toolchain.plugins.wire import Properties, is_unknown

MINIMUMS = ("minLower", "minNumeric", "minSpecial", "minUpper")
RESOURCE_ID = "none"  # as in the official provider: an id must not reveal the secret
SPECIAL = "!@#$%&*()-_=+[]{}<>:?"


class RandomPassword(Resource):
    """A random string from the system's generator; any changed input replaces it."""

    kind = "random:index/randomPassword:RandomPassword"
    defaults = {
        **dict.fromkeys(("lower", "number", "numeric", "special", "upper"), True),
        **dict.fromkeys(MINIMUMS, 0),
    }
    unsupported = (*MINIMUMS, "overrideSpecial")
    computed = ("result",)

    def check(self, inputs: Properties) -> dict[str, str]:
        failures, length = super().check(inputs), inputs.get("length")
        if not is_unknown(length) and (not isinstance(length, int) or length < 1):
            failures["length"] = f"{length!r} must be at least 1"
        elif not self._characters(inputs):
            failures["length"] = "every class of characters is switched off"
        return failures

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        characters = self._characters(new)
        result = "".join(secrets.choice(characters) for _ in range(new["length"]))
        return RESOURCE_ID, {**self.with_defaults(new), "result": result}

    def read(self, old: State) -> State:
        """An import uses the id as the password. Pulumi keeps that id in its state unencrypted."""
        if old.outputs:
            return old
        inputs = {"length": len(old.id)}
        outputs = {**self.with_defaults(inputs), "result": old.id}
        return State(id=RESOURCE_ID, inputs=inputs, outputs=outputs)

    def _characters(self, inputs: Properties) -> str:
        """Those of every class that is switched on."""
        full = self.with_defaults(inputs)
        classes = {
            string.ascii_lowercase: full["lower"],
            string.ascii_uppercase: full["upper"],
            string.digits: full["numeric"] and full["number"],
            SPECIAL: full["special"],
        }
        return "".join(characters for characters, is_on in classes.items() if is_on)
