# mypy: disable-error-code="no-untyped-call"
"""The messages of Nomad's plugin protocol, API version v0.1.0.

Their names, fields and numbers are those of base.proto, device.proto, attribute.proto and
stats.proto below Nomad's folder plugins/. What this plugin does not use is left out, and stays
unread. They are built here, because hosts do not have protobuf's compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

BASE = "hashicorp.nomad.plugins.base.proto"
DEVICE = "hashicorp.nomad.plugins.device"
SHARED = "hashicorp.nomad.plugins.shared.structs"

_Type = descriptor_pb2.FieldDescriptorProto
STRING = _Type.TYPE_STRING
BOOL, INT, DOUBLE = _Type.TYPE_BOOL, _Type.TYPE_INT64, _Type.TYPE_DOUBLE
# An enumeration of which one value is used; on the wire it is a number like any other.
ENUM = _Type.TYPE_INT32
DURATION, TIMESTAMP = ".google.protobuf.Duration", ".google.protobuf.Timestamp"


@dataclass(frozen=True)
class Field:
    """`type` is one of the above, or the full name of a message with a leading dot."""

    number: int
    type: int | str
    repeated: bool = False
    one_of: str = ""


@dataclass(frozen=True)
class MapField:
    """A map from strings."""

    number: int
    type: int | str


Messages = Mapping[str, Mapping[str, Field | MapField]]

BASE_MESSAGES: Messages = {
    "PluginInfoRequest": {},
    "PluginInfoResponse": {
        "type": Field(1, ENUM),
        "plugin_api_versions": Field(2, STRING, repeated=True),
        "plugin_version": Field(3, STRING),
        "name": Field(4, STRING),
    },
    "ConfigSchemaRequest": {},
    # Without a schema Nomad takes no configuration, and starts the plugin one time fewer.
    "ConfigSchemaResponse": {},
    "SetConfigRequest": {"plugin_api_version": Field(3, STRING)},
    "SetConfigResponse": {},
}
SHARED_MESSAGES: Messages = {
    "Attribute": {
        "float_val": Field(1, DOUBLE, one_of="value"),
        "int_val": Field(2, INT, one_of="value"),
        "string_val": Field(3, STRING, one_of="value"),
        "bool_val": Field(4, BOOL, one_of="value"),
        "unit": Field(5, STRING),
    },
    "StatValue": {
        "float_numerator_val": Field(1, DOUBLE),
        "float_denominator_val": Field(2, DOUBLE),
        "unit": Field(7, STRING),
        "desc": Field(8, STRING),
    },
    "StatObject": {"attributes": MapField(2, f".{SHARED}.StatValue")},
}
DEVICE_MESSAGES: Messages = {
    "FingerprintRequest": {},
    "FingerprintResponse": {"device_group": Field(1, f".{DEVICE}.DeviceGroup", repeated=True)},
    "DeviceGroup": {
        "vendor": Field(1, STRING),
        "device_type": Field(2, STRING),
        "device_name": Field(3, STRING),
        "devices": Field(4, f".{DEVICE}.DetectedDevice", repeated=True),
        "attributes": MapField(5, f".{SHARED}.Attribute"),
    },
    "DetectedDevice": {
        "ID": Field(1, STRING),
        "healthy": Field(2, BOOL),
        "health_description": Field(3, STRING),
        "hw_locality": Field(4, f".{DEVICE}.DeviceLocality"),
    },
    "DeviceLocality": {"pci_bus_id": Field(1, STRING)},
    "ReserveRequest": {"device_ids": Field(1, STRING, repeated=True)},
    "ReserveResponse": {"container_res": Field(1, f".{DEVICE}.ContainerReservation")},
    "ContainerReservation": {
        "envs": MapField(1, STRING),
        "devices": Field(3, f".{DEVICE}.DeviceSpec", repeated=True),
    },
    "DeviceSpec": {
        "task_path": Field(1, STRING),
        "host_path": Field(2, STRING),
        "permissions": Field(3, STRING),
    },
    "StatsRequest": {"collection_interval": Field(1, DURATION)},
    "StatsResponse": {"groups": Field(1, f".{DEVICE}.DeviceGroupStats", repeated=True)},
    "DeviceGroupStats": {
        "vendor": Field(1, STRING),
        "type": Field(2, STRING),
        "name": Field(3, STRING),
        "instance_stats": MapField(4, f".{DEVICE}.DeviceStats"),
    },
    "DeviceStats": {
        "summary": Field(1, f".{SHARED}.StatValue"),
        "stats": Field(2, f".{SHARED}.StatObject"),
        "timestamp": Field(3, TIMESTAMP),
    },
}


def _pool() -> descriptor_pool.DescriptorPool:
    """A pool of its own: another library of the process may know Nomad's real messages."""
    pool = descriptor_pool.DescriptorPool()
    imported = (duration_pb2.DESCRIPTOR, timestamp_pb2.DESCRIPTOR)
    for known in imported:
        pool.AddSerializedFile(known.serialized_pb)
    _add(pool, SHARED, SHARED_MESSAGES)
    _add(pool, BASE, BASE_MESSAGES)
    _add(pool, DEVICE, DEVICE_MESSAGES, imports=(_file(SHARED), *(each.name for each in imported)))
    return pool


def _file(package: str) -> str:
    return f"{package}.proto"


def _add(
    pool: descriptor_pool.DescriptorPool,
    package: str,
    messages: Messages,
    imports: tuple[str, ...] = (),
) -> None:
    file = descriptor_pb2.FileDescriptorProto(
        name=_file(package), package=package, syntax="proto3", dependency=imports
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, field in fields.items():
            if isinstance(field, MapField):
                _add_map(message, f".{package}.{name}", field_name, field)
            else:
                _add_field(message, field_name, field)
    pool.AddSerializedFile(file.SerializeToString())


def _add_field(message: Any, name: str, field: Field) -> Any:
    label = _Type.LABEL_REPEATED if field.repeated else _Type.LABEL_OPTIONAL
    added = message.field.add(name=name, number=field.number, label=label)
    if isinstance(field.type, str):
        added.type, added.type_name = _Type.TYPE_MESSAGE, field.type
    else:
        added.type = field.type
    if field.one_of:
        names = [each.name for each in message.oneof_decl]
        if field.one_of not in names:
            message.oneof_decl.add(name=field.one_of)
        added.oneof_index = len(message.oneof_decl) - 1
    return added


def _add_map(message: Any, full_name: str, name: str, field: MapField) -> None:
    """A map is a list of entries, of a message that is named after the field."""
    entry_name = "".join(word.capitalize() for word in name.split("_")) + "Entry"
    entry = message.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    _add_field(entry, "key", Field(1, STRING))
    _add_field(entry, "value", Field(2, field.type))
    _add_field(message, name, Field(field.number, f"{full_name}.{entry_name}", repeated=True))


_POOL = _pool()


def _message(package: str, name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))


PluginInfoRequest = _message(BASE, "PluginInfoRequest")
PluginInfoResponse = _message(BASE, "PluginInfoResponse")
ConfigSchemaRequest = _message(BASE, "ConfigSchemaRequest")
ConfigSchemaResponse = _message(BASE, "ConfigSchemaResponse")
SetConfigRequest = _message(BASE, "SetConfigRequest")
SetConfigResponse = _message(BASE, "SetConfigResponse")
FingerprintRequest = _message(DEVICE, "FingerprintRequest")
FingerprintResponse = _message(DEVICE, "FingerprintResponse")
ReserveRequest = _message(DEVICE, "ReserveRequest")
ReserveResponse = _message(DEVICE, "ReserveResponse")
StatsRequest = _message(DEVICE, "StatsRequest")
StatsResponse = _message(DEVICE, "StatsResponse")
