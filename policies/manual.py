"""Writes docs/policies.md from the rules: python policies/manual.py > docs/policies.md"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rules import GROUPS, RULES
from rules.rule import Rule, Stage

HEAD = f"""\
# Policies

<!-- Generated from policies/rules by `python policies/manual.py`; a test keeps it current. -->

{len(RULES)} rules judge an environment before anything is created. `slipway preview` runs them,
and so does `pulumi preview --policy-pack policies`; `slipway preview --offline --json | python
policies/check.py` needs no Pulumi. The rules read the facts that components publish about the plan
(schemas/facts.schema.json) and the inputs of other resources.

* **mandatory** blocks, **advisory** is shown, **off** is not judged. The level depends on the stage
  of the environment, which follows from its name (policies/settings.yaml). A name that matches no
  stage means development for the target dev, and production for every other target.
* **Could not be evaluated** fails at every level: a value that the preview does not know, or that
  the plan leaves out, could be anything.
* A **waiver** (policies/waivers.yaml) accepts a finding until a date, with an owner and a reason.
  It is shown while it is valid, and fails once it has expired.
"""


def manual() -> str:
    return "\n".join([HEAD, *_overview(), *_groups()])


def _overview() -> Iterator[str]:
    yield "| rule | development | staging | production |"
    yield "|---|---|---|---|"
    for rule in RULES:
        levels = (rule.severity.at(stage).value for stage in Stage)
        yield f"| [{rule.id}](#{rule.id}) | {' | '.join(levels)} |"
    yield ""


def _groups() -> Iterator[str]:
    for group, rules in GROUPS.items():
        yield f"## {group}\n"
        for rule in rules:
            yield _section(rule)


def _section(rule: Rule) -> str:
    types = ", ".join(f"`{type_}`" for type_ in rule.types)
    return (
        f"### {rule.id}\n\n{rule.title}.\n\nWhy: {rule.why}\n\nFix: {rule.fix}\n\nReads: {types}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(manual())
