"""A pull request's comment: the verdict, then what reviewers need to decide, then the folds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from slipway.diff.budget import COMMENT_BYTES, Section, fit, size
from slipway.diff.change import EFFECTS, OPS, Change, PathChange, Preview, Stamp
from slipway.diff.domain import Row, summary
from slipway.diff.markdown import code, details, fence, html_code, prose, table
from slipway.diff.policies import Finding, PolicyReport
from slipway.diff.verdict import notable, verdict_of

UNLIMITED_BYTES = UNLIMITED_PATHS = 1 << 40
PATHS_PER_RESOURCE = 40
NAMES_WHEN_SHORT = 100
ROWS_WHEN_SHORT = 20
_DONE = {
    "create": "to create",
    "update": "to update",
    "replace": "to replace",
    "delete": "to delete",
}
_SIGNS = {"create": "+", "update": "!", "replace": "!", "delete": "-"}
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.]+")  # "--" would end the marker
_CLOSING_BYTES = 1500  # for the notice of what was left out, and for the stamp


def marker(environment: str) -> str:
    """The hidden first line by which the comment is found again: one per pull request and
    environment."""
    return f"<!-- slipway-diff:{_NOT_IN_A_NAME.sub('-', environment)} -->"


def render(
    preview: Preview,
    policies: PolicyReport | None,
    stamp: Stamp,
    *,
    limit_bytes: int = COMMENT_BYTES,
) -> str:
    """The comment, at most `limit_bytes` (4,000 or more) long. It counts what was left out and
    points to the full report."""
    return _render(preview, policies, stamp, limit_bytes, PATHS_PER_RESOURCE)


def render_report(preview: Preview, policies: PolicyReport | None, stamp: Stamp) -> str:
    """The comment in full, however long."""
    return _render(preview, policies, stamp, UNLIMITED_BYTES, UNLIMITED_PATHS)


def _render(
    preview: Preview, policies: PolicyReport | None, stamp: Stamp, limit_bytes: int, most_paths: int
) -> str:
    head = f"{marker(preview.environment)}\n{_headline(preview, policies)}\n"
    room = limit_bytes - size(head) - _CLOSING_BYTES
    # The first part takes at most two thirds, so every comment has room for the rest.
    decisions = fit(_decisions(preview, policies), room * 2 // 3)
    folds = fit(list(_folds(preview.changes, most_paths)), room - size(decisions.text))
    missing = decisions.left_out + decisions.shortened, folds.left_out + folds.shortened
    closing = f"{_notice(*missing, stamp)}{_stamped(preview, stamp)}"
    return f"{head}{decisions.text}{folds.text}{closing}"


def _headline(preview: Preview, policies: PolicyReport | None) -> str:
    verdict = verdict_of(preview)
    counts = [f"{preview.count(op)} {_DONE[op]}" for op in OPS if preview.count(op)]
    counts.append(f"{preview.unchanged} unchanged")
    if verdict == "failed":
        counts.append("the list of changes may be incomplete")
    head = f"### {verdict}: {code(preview.environment)}\n\n{', '.join(counts)}."
    if policies is not None and policies.blocked:
        blocking = sum(finding.blocks for finding in policies.findings)
        head += f" **Blocked by {blocking} of the policies' findings.**"
    broken = [name for name, model in preview.after.models.items() if model.meets_goal is False]
    if broken:
        head += f" **Expected to miss their SLO: {_listed(broken, ROWS_WHEN_SHORT)}.**"
    return head


def _decisions(preview: Preview, policies: PolicyReport | None) -> list[Section]:
    """What reviewers need to decide, most important first."""
    parts = [*_errors(preview), *_notable_sections(notable(preview)), *_restarts(preview)]
    rows = summary(preview)
    if rows:
        parts.append(Section(full=f"\n{_domain(rows)}\n", short=_first(rows)))
    parts.append(_policies(policies))
    if preview.warnings:
        parts.append(Section(full=f"\n{details('warnings', fence(preview.warnings))}\n"))
    return parts


def _errors(preview: Preview) -> Iterator[Section]:
    if preview.errors:
        lines = [line for error in preview.errors for line in error.splitlines()]
        yield Section(
            full=f"\nThe preview failed:\n\n{fence(lines)}\n",
            short=f"\nThe preview failed:\n\n{fence([line[:300] for line in lines[:10]])}\n",
        )


def _notable_sections(changes: Sequence[Change]) -> Iterator[Section]:
    """One line for all resources lost in the same way for the same cause."""
    if not changes:
        return
    yield Section(full="\nDeleted or replaced:\n\n")
    for _, group in groupby(sorted(changes, key=_kind_of_loss), key=_kind_of_loss):
        alike = list(group)
        yield Section(full=_loss(alike, len(alike)), short=_loss(alike, NAMES_WHEN_SHORT))


def _kind_of_loss(change: Change) -> tuple[object, ...]:
    return (
        -EFFECTS.index(change.effect),
        change.op,
        change.type,
        change.accelerator,
        change.cause,
        change.consequence,
    )


def _loss(alike: Sequence[Change], most_names: int) -> str:
    change = alike[0]
    names = _listed([each.name for each in alike], most_names)
    owners = {each.component for each in alike} - {""}
    of = f" of {code(change.component)}" if len(owners) == 1 else ""
    on = f" on {code(change.accelerator)}" if change.accelerator else ""
    what = f"- **{change.op}** {names} ({code(_short(change.type))}{of}{on})"
    return f"{what}: {cause_of(change)}{_then(change)}\n"


def _then(change: Change) -> str:
    return f"; {change.consequence}" if change.consequence else ""


def cause_of(change: Change) -> str:
    if change.op == "delete":
        return "no longer in the program"
    if not change.cause:
        return "the engine names no cause"
    return f"because {', '.join(code(reason) for reason in change.cause)} changed"


def _restarts(preview: Preview) -> Iterator[Section]:
    names = [
        change.name
        for change in preview.changes
        if change.op == "update" and change.effect == "disruptive"
    ]
    if names:
        yield Section(
            full=f"\nRestarted in place: {_listed(names, len(names))}.\n",
            short=f"\nRestarted in place: {_listed(names, ROWS_WHEN_SHORT)}.\n",
        )


def _listed(names: Sequence[str], most: int) -> str:
    text = ", ".join(code(name) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def _domain(rows: Sequence[Row]) -> str:
    cells = [
        (
            f"{row.what} {code(row.subject)}" if row.subject else row.what,
            prose(row.before),
            prose(row.after),
        )
        for row in rows
    ]
    return table(("", "before", "after"), cells)


def _first(rows: Sequence[Row]) -> str:
    rest = len(rows) - ROWS_WHEN_SHORT
    return f"\n{_domain(rows[:ROWS_WHEN_SHORT])}\n\nand {rest} more rows.\n" if rest > 0 else ""


def _policies(report: PolicyReport | None) -> Section:
    if report is None:
        return Section(full="\nPolicies: not run.\n")
    unknown = report.count("could not be evaluated")
    counts = [
        ("mandatory violated", report.count("violated", "mandatory")),
        ("advisory violated", report.count("violated", "advisory")),
        ("could not be evaluated (fails)", unknown),
        ("waived", report.count("waived")),
        ("expired waivers (fail)", report.count("expired waiver")),
    ]
    found = ", ".join(f"{count} {name}" for name, count in counts if count) or "all passed"
    head = f"\nPolicies: {report.rules} rules; {found}.\n"
    rows = [_finding(finding) for finding in report.findings]
    if not rows:
        return Section(full=head)
    columns = ("policy", "resource", "finding", "what to do")
    blocking = rows[: sum(finding.blocks for finding in report.findings)][:ROWS_WHEN_SHORT]
    short = f"{head}\n{table(columns, blocking)}\n" if blocking else head
    return Section(full=f"{head}\n{table(columns, rows)}\n", short=short)


def _finding(finding: Finding) -> tuple[str, ...]:
    level = finding.level if finding.outcome == "violated" else finding.outcome
    action = finding.answered_by if finding.outcome == "waived" else finding.fix
    return (
        f"{prose(level)} {code(finding.rule)}",
        code(finding.resource),
        prose(finding.message),
        prose(action),
    )


def _folds(changes: Sequence[Change], most_paths: int) -> Iterator[Section]:
    """One fold per component, those with the most severe changes first."""
    by_component: dict[str, list[Change]] = {}
    for change in changes:
        by_component.setdefault(change.component, []).append(change)
    order = sorted(by_component.items(), key=lambda each: (-_worst(each[1]), each[0]))
    for name, owned in order:
        title = f"{html_code(name or 'platform')}: {_tally(owned)}"
        yield Section(
            full=f"\n{details(title, fence(_lines(owned, most_paths), 'diff'))}\n",
            short=f"\n{details(title, fence(_lines(owned, 0), 'diff'))}\n",
        )


def _worst(changes: Iterable[Change]) -> int:
    return max(EFFECTS.index(change.effect) for change in changes)


def _tally(changes: Sequence[Change]) -> str:
    counts = [(op, sum(change.op == op for change in changes)) for op in OPS]
    return ", ".join(f"{count} {_DONE[op]}" for op, count in counts if count)


def _lines(changes: Iterable[Change], most_paths: int) -> Iterator[str]:
    """A diff block: GitHub and GitLab colour each line by its first character."""
    for change in changes:
        cause = f" (forced by {', '.join(change.cause)})" if change.cause else ""
        yield f"{_SIGNS[change.op]} {change.op} {_short(change.type)} {change.name}{cause}"
        if change.op == "update" and not change.paths:
            yield "      no property of its own differs"
        for path in change.paths[:most_paths]:
            yield from _path_lines(path)
        rest = len(change.paths) - most_paths
        if rest > 0:
            yield f"      {rest} more changed {'path' if rest == 1 else 'paths'}"


def _path_lines(path: PathChange) -> Iterator[str]:
    if path.before is None and path.after is None:
        yield f"      {path.path}: {path.kind}"
        return
    if path.before is not None:
        yield f"-     {path.path}: {path.before}"
    if path.after is not None:
        yield f"+     {path.path}: {path.after}"


def _short(type_: str) -> str:
    """ "nomad:index/job:Job" -> "nomad Job"."""
    package, _, rest = type_.partition(":")
    return f"{package} {rest.rpartition(':')[2]}" if rest else type_


def _notice(decisions: int, folds: int, stamp: Stamp) -> str:
    if not decisions and not folds:
        return ""
    place = f"in {code(stamp.report)}" if stamp.report else "with slipway diff --report FILE"
    return (
        f"\n**This comment is too small for everything**: {decisions} items above and {folds}"
        f" components are shortened or left out. The whole report is {place}.\n"
    )


def _stamped(preview: Preview, stamp: Stamp) -> str:
    parts = [
        f"commit {code(stamp.commit)}" if stamp.commit else "",
        stamp.time,
        f"compared with {preview.compared_with}",
    ]
    return f"\n<sub>{' · '.join(part for part in parts if part)}</sub>\n"
