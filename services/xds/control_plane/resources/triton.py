"""The part of Triton's gRPC API that the gateway needs: where each request names its model.

Only the fields that are read are described (numbers as in the KServe v2 protocol,
grpc_service.proto); protobuf skips the others.
"""

from __future__ import annotations

import base64

from ..protobuf import service_descriptor_set

PACKAGE = "inference"
SERVICE = "GRPCInferenceService"

# method -> (request message, field with the model's name); the field number is always 1
_METHODS = {
    "ModelInfer": ("ModelInferRequest", "model_name"),
    "ModelStreamInfer": ("ModelInferRequest", "model_name"),
    "ModelReady": ("ModelReadyRequest", "name"),
    "ModelMetadata": ("ModelMetadataRequest", "name"),
    "ModelConfig": ("ModelConfigRequest", "name"),
    "ModelStatistics": ("ModelStatisticsRequest", "name"),
}
_STREAMING = frozenset({"ModelStreamInfer"})
STREAM_PATH = f"/{PACKAGE}.{SERVICE}/ModelStreamInfer"


def model_name_fields() -> dict[str, str]:
    """Full method name -> the request field that names the model."""
    return {
        f"{PACKAGE}.{SERVICE}.{method}": field for method, (_, field) in sorted(_METHODS.items())
    }


def descriptor_set_base64() -> str:
    """A serialized FileDescriptorSet of the methods above, encoded as bytes in Envoy's JSON."""
    serialized = service_descriptor_set(
        package=PACKAGE, service=SERVICE, methods=_METHODS, streaming=_STREAMING
    )
    return base64.b64encode(serialized).decode("ascii")
