"""Property bags between Pulumi's wire format (google.protobuf.Struct) and plain Python values.

These providers declare that they do not accept secrets, so the engine unwraps the values it sends,
and marks every returned property whose input was secret. Only provider configuration is always
wrapped.
"""

from typing import Any, TypeAlias

from google.protobuf.struct_pb2 import Struct, Value  # type: ignore[import-untyped]

Properties: TypeAlias = dict[str, Any]

# Constants of the protocol (pulumi/sdk: resource/properties.go, plugin/rpc.go).
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105


def decode(struct: Struct) -> Properties:
    """The properties of `struct`: whole numbers as int, secrets unwrapped, nulls dropped."""
    return {
        key: _decode_value(value)
        for key, value in struct.fields.items()
        if value.WhichOneof("kind") != "null_value"
    }


def _decode_value(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    if kind == "list_value":
        return [_decode_value(item) for item in value.list_value.values]
    if kind == "struct_value":
        fields = value.struct_value.fields
        # Not fields[…] directly, because reading a missing key of a message map adds it.
        if _SIGNATURE_KEY in fields and fields[_SIGNATURE_KEY].string_value == _SECRET_SIGNATURE:
            return _decode_value(fields["value"])
        return decode(value.struct_value)
    return None if kind in (None, "null_value") else getattr(value, kind)


def encode(properties: Properties) -> Struct:
    """`properties` as a Struct; None becomes null."""
    struct = Struct()
    struct.update(properties)
    return struct


def is_unknown(value: Any) -> bool:
    """Whether `value` is or contains something that is unknown before the update runs."""
    if isinstance(value, dict):
        return any(is_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(is_unknown(item) for item in value)
    return isinstance(value, str) and value == UNKNOWN
