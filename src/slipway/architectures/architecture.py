"""An architecture from the values of a config.json: pure, or refused."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from slipway.config.catalog import Architecture, LayerPart
from slipway.config.errors import suggestion_or

from .attention import head_dim, kv_heads
from .context import context_of
from .families import FAMILIES, Family
from .keys import Keys
from .linear import latent_attention
from .own_keys import in_own_words
from .quantized import published

TEXT = "text_config"
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "bf16"}


def architecture_of(config: Mapping[str, Any], *, source: str, date: datetime.date) -> Architecture:
    """The facts that determine memory and arithmetic.

    Layers for predicting several tokens are not counted: vLLM loads them only for speculative
    decoding. Raises ConfigError with key, value and what is supported for a kind of model or a
    feature that would be counted wrongly.
    """
    top = Keys(source=source, values=config)
    kind, family = _family(top)
    text = _text(top, family)
    _refuse_unsupported(text, family)
    try:
        unquantized = _unquantized(top, text, kind, source=source, date=date)
        facts = {**dict(unquantized), **published(unquantized, top)}
        return Architecture.model_validate(facts)
    except ValidationError as error:
        raise in_own_words(error, text) from None


def _unquantized(
    top: Keys, text: Keys, kind: str, *, source: str, date: datetime.date
) -> Architecture:
    family, hidden = FAMILIES[kind], text.written("hidden_size")
    latent = latent_attention(text) if family.latent else None
    return Architecture(
        is_read=True,
        layers=text.written("num_hidden_layers"),
        hidden=hidden,
        heads=text.number("num_attention_heads"),
        kv_heads=text.number("num_attention_heads") if latent else kv_heads(text),
        head_dim=latent.value_dimensions if latent else head_dim(text),
        intermediate=text.number(*family.intermediate),
        vocabulary=text.number("vocab_size"),
        tied_embeddings=_is_tied(top, text),
        context=context_of(text, kind),
        parts=_parts(text, family),
        sliding_window=family.windows(text),
        latent=latent,
        linear_attention=family.linear(text),
        experts=family.experts(text),
        vision_parameters=_vision(top, family, hidden),
        published_weights=_dtype(top, text),
        source=source,
        date=date,
        confidence="documented",
    )


def _family(top: Keys) -> tuple[str, Family]:
    kind = top.name("model_type") or ""
    if kind in FAMILIES:
        return kind, FAMILIES[kind]
    raise top.refusal(
        "model_type",
        "this model_type is not supported" if kind else "is required",
        value=kind or None,
        fix=suggestion_or(kind, FAMILIES, "see docs/planning.md, which lists those supported"),
    )


def _text(top: Keys, family: Family) -> Keys:
    """The keys of the text model: below `text_config`, or at the top."""
    nested = family.vision is not None and TEXT in top.values
    return replace(top.below(TEXT) if nested else top, defaults=family.defaults)


def _refuse_unsupported(text: Keys, family: Family) -> None:
    for key, supported in family.only.items():
        if text.get(key) not in (None, supported):
            raise text.refusal(
                key,
                f"must be {str(supported).lower()}",
                value=text.get(key),
                fix="use another model: other values are not supported",
            )


def _is_tied(top: Keys, text: Keys) -> bool:
    """The top of the file decides where it says anything, as in transformers."""
    key = "tie_word_embeddings"
    return top.flag(key) if key in top.values else text.flag(key)


def _parts(text: Keys, family: Family) -> tuple[LayerPart, ...]:
    switched = (parts for key, parts in family.switches.items() if text.flag(key))
    return (*family.parts, *(part for parts in switched for part in parts))


def _vision(top: Keys, family: Family, hidden: int) -> int | None:
    """Without a `vision_config` the defaults of its class would be built, which no file means."""
    if family.vision is None:
        return None
    if not top.below("vision_config").values:
        raise top.refusal(
            "vision_config",
            "is required: the vision tower is counted from it",
            fix="add it, or use the text model's own model_type",
        )
    return family.vision(top.below("vision_config"), hidden)


def _dtype(top: Keys, text: Keys) -> str:
    """vLLM loads 32-bit weights in 16 bits (_resolve_auto_dtype in vllm/config/model.py)."""
    stated = [keys.name(key) for keys in (text, top) for key in ("dtype", "torch_dtype")]
    name = next((each for each in stated if each is not None), "bfloat16")
    if name not in DTYPES:
        raise top.refusal(
            "torch_dtype",
            "is not supported",
            value=name,
            fix=f"use a model in {', '.join(DTYPES)}",
        )
    return DTYPES[name]
