"""Which tool is called: what `tools` and `tool_choice` of the APIs come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.conversation import Tool, Turn, asked_for
from simulator.openai.fields import bad
from simulator.structured import SchemaError
from simulator.text import Answer

NO_TOOLS = "When using `tool_choice`, `tools` must be set."
NOT_AMONG_THEM = "The tool specified in `tool_choice` does not match any of the specified `tools`"


def tool_of(function: object, schema_key: str, where: str) -> Tool:
    """A tool from its definition. Raises ApiError."""
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise bad(f"{where} must be an object with a name", "tools")
    schema = function.get(schema_key)
    if schema is None and schema_key == "parameters":
        schema = {"type": "object"}
    if not isinstance(schema, Mapping):
        raise bad(f"{where}.{schema_key} must be a JSON schema", "tools")
    return Tool(name, schema)


def called(
    choice: str, named: str | None, tools: Sequence[Tool], turns: Sequence[Turn]
) -> Tool | None:
    """The tool that is called, if any.

    `choice` is auto, none, required or named; a model that may choose calls the tool whose name the
    user's last message has. Raises ApiError for a choice without its tool.
    """
    if choice == "none" or (choice == "auto" and not tools):
        return None
    if not tools:
        raise bad(NO_TOOLS, "tool_choice")
    if choice == "named":
        found = next((tool for tool in tools if tool.name == named), None)
        if found is None:
            raise bad(NOT_AMONG_THEM, "tool_choice")
        return found
    asked = asked_for(turns, tools)
    return asked or (tools[0] if choice == "required" else None)


def arguments(tool: Tool | None) -> Answer | None:
    """What the model writes for a call. Raises ApiError."""
    if tool is None:
        return None
    try:
        return tool.arguments()
    except SchemaError as error:
        raise bad(f"tools: {tool.name}: {error}", "tools") from error
