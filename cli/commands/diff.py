"""Show what a change does, as a comment for its pull request."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import say, write_json
from cli.environment import find
from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.options import DEFAULT_STACK, Json, Stack
from cli.pulumi.policy_report import policy_report
from cli.targets import must_be_built
from slipway.diff.change import Preview, PreviewFormatError, Stamp
from slipway.diff.comment import render, render_report
from slipway.diff.digest import PREVIEW_FAILED, failed_preview, planned_resources, read_digest
from slipway.diff.document import diff_document
from slipway.diff.json_text import read_json
from slipway.diff.markdown import plain
from slipway.diff.offline import compare, is_offline
from slipway.diff.policies import PolicyReport, read_policy_report
from slipway.diff.verdict import verdict_of

app = typer.Typer(add_completion=False)

STANDARD_INPUT = "-"
# The engine's errors when only a policy stopped the preview: its document does not mention policies
# (pulumi/pulumi issue 18851).
WITHOUT_A_REASON = (PREVIEW_FAILED,)


@app.command()
def diff(
    *,
    file: Annotated[
        str,
        typer.Argument(metavar="[FILE|-]", help="Output of pulumi preview --json; run by default."),
    ] = "",
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
    before: Annotated[
        str,
        typer.Option(
            help="Output of slipway preview --offline --json for the base; FILE is the change's."
        ),
    ] = "",
    failed: Annotated[
        str, typer.Option(help="The messages of a preview that ended without any JSON.")
    ] = "",
    policies: Annotated[str, typer.Option(help="Output of policies/check.py --json.")] = "",
    report: Annotated[str, typer.Option(help="Also write the comment to this file, in full.")] = "",
    commit: Annotated[str, typer.Option(help="The commit that the comment is about.")] = "",
) -> None:
    """Show what a change does, as a comment for its pull request.

    Exit 1: the preview failed, or a policy blocks.
    """
    stamp = Stamp(commit=commit, time=_now(), report=Path(report).name)
    try:
        if failed:
            preview, found = failed_preview(plain(_text(failed)), environment=stack), None
        else:
            preview, found = _preview(file, stack, before)
        if policies:
            found = read_policy_report(_document(policies))
    except PreviewFormatError as error:
        raise CliError(str(error), fix=error.fix, exit_code=WRONG_INPUT) from None
    if report:
        Path(report).write_text(render_report(preview, found, stamp), encoding="utf-8")
    if json:
        write_json(diff_document(preview, found, stamp))
    else:
        sys.stdout.write(render(preview, found, stamp))
    if _fails(preview, found):
        raise typer.Exit(FAILED)


def _preview(file: str, stack: str, before: str) -> tuple[Preview, PolicyReport | None]:
    """Policies are judged only if the preview has every resource: a file may lack those that do
    not change."""
    if not file:
        if before:
            raise CliError(
                "--before needs the FILE to compare with",
                fix=f"slipway preview -s {stack} --offline --json | slipway diff - --before FILE",
                exit_code=WRONG_INPUT,
            )
        must_be_built(find(stack))
        return _own_preview(stack)
    document = _document(file)
    if before:
        preview = compare(_document(before), document, environment=stack)
        return preview, policy_report(document, stack, preview.before.usd_per_hour)
    if is_offline(document):
        raise CliError(
            f"{file} is an offline preview, which does not say what existed before",
            fix="also pass the one of the base: slipway diff FILE --before BASE_FILE",
            exit_code=WRONG_INPUT,
        )
    return read_digest(document), None


def _own_preview(stack: str) -> tuple[Preview, PolicyReport | None]:
    """Runs `slipway preview`, which knows whether to refresh.

    `--show-sames`: totals need the facts of unchanged resources, too.
    """
    command = [sys.executable, "-P", "-m", "cli", "preview", "-s", stack, "--json"]
    done = subprocess.run(
        [*command, "--show-sames"], capture_output=True, text=True, errors="replace", check=False
    )
    say(done.stderr.rstrip())
    if not done.stdout.strip():
        message = plain(done.stderr).strip() or f"the preview ended with {done.returncode}"
        return failed_preview(message, environment=stack), None
    document = _parsed(done.stdout, "the preview's output")
    preview = read_digest(document)
    if preview.errors not in ((), WITHOUT_A_REASON):
        return preview, None  # incomplete: the policies would not see the missing resources
    found = policy_report(planned_resources(document), stack, preview.before.usd_per_hour)
    if found.blocked:
        return dataclasses.replace(preview, errors=()), found  # the policies were the reason
    if done.returncode and not preview.errors:
        ended = f"the preview ended with exit code {done.returncode}"
        return dataclasses.replace(preview, errors=(ended,)), found
    return preview, found


def _document(file: str) -> Mapping[str, Any]:
    return _parsed(_text(file), "standard input" if file == STANDARD_INPUT else file)


def _text(file: str) -> str:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read().decode(errors="replace")
    return Path(file).read_text(encoding="utf-8", errors="replace")


def _parsed(text: str, place: str) -> Mapping[str, Any]:
    try:
        document = read_json(text)
    except (ValueError, RecursionError) as error:
        raise CliError(
            f"{place} is not JSON: {error}",
            fix="pulumi preview --json --show-sames > preview.json (messages go to standard error)",
            exit_code=WRONG_INPUT,
        ) from None
    if not isinstance(document, Mapping):
        raise CliError(
            f"{place} is not a JSON object", fix="see slipway diff --help", exit_code=WRONG_INPUT
        )
    return document


def _fails(preview: Preview, policies: PolicyReport | None) -> bool:
    return verdict_of(preview) == "failed" or bool(policies and policies.blocked)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
