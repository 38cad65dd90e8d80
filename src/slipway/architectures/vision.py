"""Parameters of vision towers and their projectors, as transformers builds them.

The counts are checked against transformers on the meta device in
tests/unit/architectures/test_counts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .keys import Keys

CHANNELS = 3

# The parameters of a tower whose output is as wide as the text model.
Vision = Callable[[Keys, int], int]


def qwen2_vl(vision: Keys, _: int) -> int:
    """`hidden_size` is that of the output."""
    keys = replace(
        vision,
        defaults={
            "depth": 32,
            "embed_dim": 1280,
            "hidden_size": 3584,
            "mlp_ratio": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    )
    size = keys.number("embed_dim")
    block = 2 * 2 * size + _fused_attention(size) + _mlp(size, size * keys.number("mlp_ratio"))
    merged = size * keys.number("spatial_merge_size") ** 2
    merger = 2 * size + _merger(merged, keys.number("hidden_size"))
    return size * _patch(keys) + keys.number("depth") * block + merger


def qwen2_5_vl(vision: Keys, _: int) -> int:
    """Gated MLPs with biases, and RMSNorm."""
    keys = replace(
        vision,
        defaults={
            "depth": 32,
            "hidden_size": 3584,
            "intermediate_size": 3420,
            "out_hidden_size": 3584,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    )
    size, wide = keys.number("hidden_size"), keys.number("intermediate_size")
    block = 2 * size + _fused_attention(size) + 3 * size * wide + 2 * wide + size
    merged = size * keys.number("spatial_merge_size") ** 2
    merger = size + _merger(merged, keys.number("out_hidden_size"))
    return size * _patch(keys) + keys.number("depth") * block + merger


def qwen3_vl(vision: Keys, text_hidden: int) -> int:
    """A second merger for each layer whose output the text model sees."""
    keys = replace(vision, defaults={**_QWEN3, "deepstack_visual_indexes": (8, 16, 24)})
    merged = keys.number("hidden_size") * keys.number("spatial_merge_size") ** 2
    deep = 2 * merged + _merger(merged, keys.number("out_hidden_size"))
    return qwen3_5(vision, text_hidden) + len(keys.numbers("deepstack_visual_indexes")) * deep


def qwen3_5(vision: Keys, _: int) -> int:
    """Learned positions, and one merger."""
    keys = replace(vision, defaults=_QWEN3)
    size = keys.number("hidden_size")
    patches = size * _patch(keys) + size + keys.number("num_position_embeddings") * size
    block = 2 * 2 * size + _fused_attention(size) + _mlp(size, keys.number("intermediate_size"))
    merged = size * keys.number("spatial_merge_size") ** 2
    merger = 2 * size + _merger(merged, keys.number("out_hidden_size"))
    return patches + keys.number("depth") * block + merger


def siglip(vision: Keys, text_hidden: int) -> int:
    """Gemma 3: SigLIP without its head, a norm, and a projection without bias."""
    keys = replace(
        vision,
        defaults={
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "image_size": 224,
            "patch_size": 16,
        },
    )
    if vision.get("vision_use_head") is not False:
        raise vision.refusal(
            "vision_use_head",
            "must be false: a head is not supported",
            value=vision.get("vision_use_head"),
            fix="use a model with false, as those of Gemma 3 are",
        )
    size, patch = keys.number("hidden_size"), keys.number("patch_size")
    positions = (keys.number("image_size") // patch) ** 2
    patches = CHANNELS * patch**2 * size + size + positions * size
    layer = 2 * 2 * size + _fused_attention(size) + _mlp(size, keys.number("intermediate_size"))
    projector = size + size * text_hidden
    return patches + keys.number("num_hidden_layers") * layer + 2 * size + projector


def llama4(vision: Keys, text_hidden: int) -> int:
    """A class token, learned positions, an adapter, and a projection."""
    keys = replace(
        vision,
        defaults={
            "hidden_size": 768,
            "intermediate_size": 5632,
            "num_hidden_layers": 34,
            "image_size": 448,
            "patch_size": 14,
            "vision_output_dim": 7680,
            "projector_input_dim": 4096,
            "projector_output_dim": 4096,
        },
    )
    size, patch = keys.number("hidden_size"), keys.number("patch_size")
    positions = (keys.number("image_size") // patch) ** 2 + 1
    patches = CHANNELS * patch**2 * size + size + positions * size
    layer = 2 * 2 * size + _fused_attention(size) + _mlp(size, keys.number("intermediate_size"))
    adapter = keys.number("intermediate_size") * keys.number("projector_input_dim")
    adapter += keys.number("projector_output_dim") ** 2
    projector = keys.number("vision_output_dim") * text_hidden
    layers = keys.number("num_hidden_layers") * layer
    return patches + layers + 2 * 2 * size + adapter + projector


_QWEN3 = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_position_embeddings": 2304,
    "out_hidden_size": 3584,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def _patch(keys: Keys) -> int:
    """Values of one patch of a video."""
    return CHANNELS * keys.number("temporal_patch_size") * keys.number("patch_size") ** 2


def _fused_attention(size: int) -> int:
    """Queries, keys, values and output, each with a bias."""
    return 4 * (size * size + size)


def _mlp(size: int, intermediate: int) -> int:
    return 2 * size * intermediate + intermediate + size


def _merger(merged: int, output: int) -> int:
    """Two projections with biases."""
    return merged * merged + merged + merged * output + output
