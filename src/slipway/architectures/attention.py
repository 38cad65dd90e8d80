"""Heads of attention, in numbers that a model can have."""

from __future__ import annotations

from .keys import Keys

HEADS = "num_attention_heads"
KV_HEADS = "num_key_value_heads"


def kv_heads(text: Keys) -> int:
    """Of grouped-query attention (arXiv 2305.13245 §2.2): each is shared by as many heads.

    Raises ConfigError where the heads cannot be divided.
    """
    heads = text.number(HEADS)
    kv = text.optional(KV_HEADS) or heads
    if heads % kv:
        raise text.refusal(
            KV_HEADS,
            f"must divide {HEADS}, which is {heads}",
            value=kv,
            fix="correct one of the two",
        )
    return kv


def head_dim(text: Keys) -> int:
    """Values of a head: `head_dim`, else an equal share of the hidden size."""
    stated = text.optional("head_dim")
    if stated is not None:
        return stated
    heads, hidden = text.number(HEADS), text.number("hidden_size")
    if hidden % heads:
        raise text.refusal(
            "hidden_size",
            f"must be a multiple of {HEADS}, which is {heads}, where there is no head_dim",
            value=hidden,
            fix="add `head_dim`, or correct one of the two",
        )
    return hidden // heads
