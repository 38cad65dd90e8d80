"""Parts of launch templates, as arguments of the types of the SDK: what a machine boots, on which
volume, and who reads its metadata. Pure."""

from __future__ import annotations

from typing import Any

from slipway.plan.aws import AwsImage

# With a token only, and not to networks of containers.
METADATA_OPTIONS = {
    "http_endpoint": "enabled",
    "http_tokens": "required",
    "http_put_response_hop_limit": 1,
}
ROOT_VOLUME_TYPE = "gp3"


def image_id(image: AwsImage) -> str:
    """A parameter is resolved by the template."""
    return image.name if image.name.startswith("ami-") else f"resolve:ssm:{image.name}"


def root_volume(*, size_gib: int, kms_key: str) -> dict[str, Any]:
    """Encrypted, with AWS's own key where `kms_key` is ""."""
    return {
        "volume_size": size_gib,
        "volume_type": ROOT_VOLUME_TYPE,
        "encrypted": "true",
        "kms_key_id": kms_key or None,
        "delete_on_termination": "true",
    }
