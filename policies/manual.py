"""docs/policies.md out of the rules: python policies/manual.py > docs/policies.md"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rules import GROUPS, RULES
from rules.rule import Rule, Stage

HEAD = f"""\
# Policies

<!-- Made from policies/rules by `python policies/manual.py`; a test keeps it current. -->

{len(RULES)} rules judge an environment before anything is made. `slipway preview` runs them;
`pulumi preview --policy-pack policies` and `slipway preview --offline --json | python
policies/check.py` do the same without it. They read what the components say of the plan
(schemas/facts.schema.json) and the inputs of ordinary resources.

* **mandatory** blocks, **advisory** is shown, **off** is not judged. Which of them counts depends
  on the stage of the environment, which its name decides (policies/settings.yaml); one with another
  name is development on one machine (target dev) and production elsewhere.
* **Could not be evaluated** fails, whatever the level: a value that the preview does not know, or
  that the plan does not give, can be anything.
* A **waiver** (policies/waivers.yaml) takes a finding out of the way until a date, with an owner
  and a reason. It is shown as long as it counts, and fails when it has expired.
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
