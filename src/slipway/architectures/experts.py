"""Mixtures of experts in the spellings of config.json."""

from __future__ import annotations

from slipway.config.catalog import MixtureOfExperts

from .keys import Keys

PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")
COUNT = ("n_routed_experts", "num_experts", "num_local_experts")
SHARED = ("n_shared_experts", "num_shared_experts")


def none(_: Keys) -> MixtureOfExperts | None:
    """A dense model."""
    return None


def every_layer(text: Keys) -> MixtureOfExperts | None:
    """Mixtral, Granite and gpt-oss: experts of `intermediate_size` in every layer."""
    return MixtureOfExperts(
        count=text.number(*COUNT),
        per_token=text.number(*PER_TOKEN),
        intermediate=text.number("intermediate_size"),
    )


def after_dense_layers(text: Keys) -> MixtureOfExperts | None:
    """DeepSeek, GLM and Kimi: leading dense layers, and shared experts of an expert's size."""
    if text.optional(*COUNT) is None:
        return None
    if text.get("moe_layer_freq") not in (None, 1):
        raise text.refusal(
            "moe_layer_freq",
            "must be 1: experts in every layer after the dense ones",
            value=text.get("moe_layer_freq"),
            fix="use a model with 1",
        )
    return MixtureOfExperts(
        count=text.number(*COUNT),
        per_token=text.number(*PER_TOKEN),
        intermediate=text.number("moe_intermediate_size"),
        shared=text.optional(*SHARED, least=0) or 0,
        leading_dense_layers=_leading_dense(text),
    )


def _leading_dense(text: Keys) -> int:
    kinds = text.names("mlp_layer_types")
    if not kinds:
        return text.number("first_k_dense_replace", least=0)
    dense = kinds.count("dense")
    if kinds != ["dense"] * dense + ["sparse"] * (len(kinds) - dense):
        raise text.refusal(
            "mlp_layer_types",
            "has dense layers after the first ones, which is not supported",
            value=kinds,
            fix="use a model whose dense layers are the first",
        )
    return dense


def every_few_layers(text: Keys) -> MixtureOfExperts | None:
    """Qwen: experts in the last of every `decoder_sparse_step` layers; a shared MLP of its own
    size, counted in experts."""
    if not text.optional(*COUNT, least=0):
        return None
    size = text.number("moe_intermediate_size")
    shared = text.optional("shared_expert_intermediate_size", least=0) or 0
    if shared % size:
        raise text.refusal(
            "shared_expert_intermediate_size",
            f"is not a multiple of moe_intermediate_size, {size}, which is not supported",
            value=shared,
            fix="use a model where it is",
        )
    step = text.optional("decoder_sparse_step") or 1
    return MixtureOfExperts(
        count=text.number(*COUNT),
        per_token=text.number(*PER_TOKEN),
        intermediate=size,
        shared=shared // size,
        leading_dense_layers=_dense_layers(text, step),
        every=step,
    )


def _dense_layers(text: Keys, step: int) -> int:
    """Layers without experts by name, which must be the first."""
    dense = text.numbers("mlp_only_layers")
    if sorted(dense) != list(range(len(dense))) or (dense and step > 1):
        raise text.refusal(
            "mlp_only_layers",
            "has other layers than the first, or a step between experts, which is not supported",
            value=dense,
            fix="use a model whose dense layers are the first",
        )
    return len(dense)


def interleaved(text: Keys) -> MixtureOfExperts | None:
    """Llama 4: experts of `intermediate_size` and one shared in the last of every few layers; the
    other layers' MLP has `intermediate_size_mlp`."""
    step = text.number("interleave_moe_layer_step")
    layers = text.numbers("moe_layers")
    usual = list(range(step - 1, text.number("num_hidden_layers"), step))
    if layers and layers != usual:
        raise text.refusal(
            "moe_layers",
            f"is not every {step}th layer, which is not supported",
            value=layers,
            fix="use a model where interleave_moe_layer_step says which layers have experts",
        )
    return MixtureOfExperts(
        count=text.number(*COUNT),
        per_token=text.number(*PER_TOKEN),
        intermediate=text.number("intermediate_size"),
        shared=1,
        every=step,
    )
