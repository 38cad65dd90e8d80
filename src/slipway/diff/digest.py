"""`pulumi preview --json` -> Preview.

The document is the CLI's PreviewDigest (pkg/display/json.go): config, steps, diagnostics,
changeSummary, maybeCorrupt. With `--show-sames` it also has the unchanged resources, and so the
facts of every component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slipway.diff.change import Op, Preview, PreviewFormatError, Resource
from slipway.diff.facts import Facts, of_resource
from slipway.diff.json_text import no_garbage_collection
from slipway.diff.reduction import Reduction, cleaner, name_of, type_of
from slipway.diff.secrets import secret_texts

# The engine's operations (pkg/resource/deploy/step.go). A replace has up to three steps.
_OPS: Mapping[str, Op | None] = {
    "same": None,
    "refresh": None,
    "read": None,
    "read-discard": None,
    "discard": None,
    "remove-pending-replace": None,
    "create": "create",
    "import": "create",
    "update": "update",
    "replace": "replace",
    "create-replacement": "replace",
    "read-replacement": "replace",
    "import-replacement": "replace",
    "delete": "delete",
}
_AFTER_A_REPLACE = ("delete-replaced", "discard-replaced")
PREVIEW_FAILED = "preview failed"  # printed after every error, and alone where a policy stopped it
_STACK = "pulumi:pulumi:Stack"


@no_garbage_collection()
def read_digest(document: Mapping[str, Any]) -> Preview:
    """Raises PreviewFormatError if the document is not a digest, or has an unknown operation: a
    change that is not understood must not look like no change."""
    steps = document.get("steps")
    if steps is None and "changeSummary" not in document and "diagnostics" not in document:
        raise PreviewFormatError(
            "this is not the output of pulumi preview --json: it has neither steps nor diagnostics",
            fix="pulumi preview --json --show-sames > preview.json",
        )
    reduction, environment, unchanged = Reduction(), "", 0
    for step in _one_per_resource(steps or []):
        environment = environment or _environment(step["urn"])
        unchanged += _reduce(step, reduction)
    summary = document.get("changeSummary") or {}
    cleaned = cleaner(reduction.secrets)
    errors, warnings = _messages(document, cleaned)
    before, after = reduction.facts()
    return Preview(
        environment=environment,
        changes=reduction.finished(before, after, cleaned),
        unchanged=int(summary.get("same", unchanged)),
        before=before,
        after=after,
        compared_with="the recorded state",
        errors=errors,
        warnings=warnings,
    )


def failed_preview(message: str, *, environment: str) -> Preview:
    """A preview that failed before it reported any resource."""
    return Preview(
        environment=environment,
        changes=(),
        unchanged=0,
        before=Facts(),
        after=Facts(),
        compared_with="the recorded state",
        errors=(message,),
    )


def planned_resources(document: Mapping[str, Any]) -> dict[str, Any]:
    """The resources after the change, as policies/check.py reads them; complete with
    `--show-sames`."""
    states = [
        step.get("newState") or step.get("oldState") or {}
        for step in _one_per_resource(document.get("steps") or [])
        if _OPS.get(_text(step, "op"), "delete") != "delete"
        and not (step["op"] == "refresh" and not step.get("newState"))  # deleted outside Pulumi
    ]
    return {
        "resources": [
            {
                "type": state["type"],
                "name": name_of(state["urn"]),
                "inputs": state.get("inputs") or {},
                "protect": bool(state.get("protect")),
            }
            for state in states
            if state.get("type") != _STACK
        ]
    }


def _one_per_resource(steps: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """One step per resource: drops refreshes of resources that have another step, and merges the
    parts of a replace.

    A delete-replaced alone completes an earlier replace: that resource is deleted now.
    """
    found = dict[str, dict[str, Any]]()
    for step in steps:
        urn, op = _text(step, "urn"), _text(step, "op")
        if urn not in found or _text(found[urn], "op") == "refresh":
            found[urn] = dict(step)  # the operation follows the refresh
        elif _is_replace(op) or _is_replace(_text(found[urn], "op")):
            # A part may lack a state or the reasons that another part has.
            known = {key: value for key, value in step.items() if value}
            found[urn] = {**known, **{k: v for k, v in found[urn].items() if v}, "op": "replace"}
        else:
            yield found.pop(urn)
            found[urn] = dict(step)
    yield from found.values()


def _is_replace(op: str) -> bool:
    return _OPS.get(op) == "replace" or op in _AFTER_A_REPLACE


def _reduce(step: Mapping[str, Any], reduction: Reduction) -> bool:
    """Adds a step; returns whether its resource is unchanged."""
    urn, name = step["urn"], _text(step, "op")
    if name not in _OPS and name not in _AFTER_A_REPLACE:
        raise PreviewFormatError(
            f'step of {urn}: unknown operation "{name}"',
            fix="use the Pulumi of this checkout's pins (slipway tools shows it)",
        )
    op: Op | None = _OPS.get(name, "delete")
    old, new = _state(step, "oldState"), _state(step, "newState")
    before, after = _inputs(old), _inputs(new)
    if op is None and before is not None and after is None:
        after = before
    if op == "delete":
        after = None
    for each in (old, new):
        reduction.secrets.update(_secret_outputs(each or {}))
    state = new or old or {}
    if _text(state, "type") != _STACK:
        reduction.add(
            Resource(
                urn=urn,
                type=_text(state, "type") or type_of(urn),
                name=name_of(urn),
                parent=_text(state, "parent"),
                before=before,
                after=after,
            ),
            op,
            cause=_texts(step, "replaceReasons"),
            reasons=_texts(step, "diffReasons"),
        )
    elif op in ("create", "delete"):
        return False  # the stack itself is not counted
    return op is None


def _state(step: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    state = step.get(key)
    return state if isinstance(state, Mapping) else None


def _inputs(state: Mapping[str, Any] | None) -> dict[str, object] | None:
    if state is None:
        return None
    inputs = state.get("inputs")
    return of_resource(_text(state, "type"), inputs) if isinstance(inputs, Mapping) else {}


def _secret_outputs(state: Mapping[str, Any]) -> Iterator[str]:
    """Outputs are never shown, but an error message may quote one."""
    outputs = state.get("outputs")
    if isinstance(outputs, Mapping):
        yield from secret_texts(outputs)
        for name in _texts(state, "additionalSecretOutputs"):
            yield from secret_texts(outputs.get(name), inside=True)


def _messages(document: Mapping[str, Any], cleaned: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(errors, warnings) without duplicates. Secrets that occur elsewhere in the document are
    masked."""
    errors, warnings = dict[str, None](), dict[str, None]()
    for diagnostic in document.get("diagnostics") or []:
        severity = _text(diagnostic, "severity")
        message = cleaned(_text(diagnostic, "message")).strip()
        if severity == "error":
            errors[message.removeprefix("error: ")] = None
        elif severity == "warning":
            warnings[message.removeprefix("warning: ")] = None
    if document.get("maybeCorrupt"):
        errors["the engine says that this preview may be corrupt"] = None
    if len(errors) > 1:
        errors.pop(PREVIEW_FAILED, None)
    return tuple(errors), tuple(warnings)


def _environment(urn: str) -> str:
    parts = urn.split("::", maxsplit=1)[0].split(":")
    return parts[2] if len(parts) > 2 else ""


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _texts(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = values.get(key)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
