"""Gathers what `slipway init` and `slipway models` need: weights, answers, judgements."""
