"""Completion chunks of vLLM as the output tensors of Triton's vLLM backend. Pure.

Every response has one element per choice. In a stream each element has what is new since the
previous response, except `cumulative_logprob`, which is the sum so far.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from generation import Generation

TokenDecoder = Callable[[int], Awaitable[str]]


class ResponseBuilder:
    """Turns the chunks of one request into tensors, in order."""

    def __init__(self, generation: Generation, decode_token: TokenDecoder) -> None:
        self._generation = generation
        self._decode_token = decode_token
        self._cumulative_logprobs = [0.0] * generation.choices
        self._unfinished = set(range(generation.choices))

    @property
    def finished(self) -> bool:
        """Whether every choice has got its last token."""
        return not self._unfinished

    async def tensors(self, chunk: dict[str, Any]) -> dict[str, list[Any]]:
        """Output name to elements, for a chunk with at least one choice."""
        by_index = {choice["index"]: choice for choice in chunk["choices"]}
        choices = [by_index.get(i, {}) for i in range(self._generation.choices)]
        self._unfinished -= {i for i, choice in by_index.items() if choice["finish_reason"]}
        prefix = self._generation.prompt if self._generation.prepend_prompt else ""
        wanted = self._generation.additional_outputs
        tensors: dict[str, list[Any]] = {
            "text_output": [(prefix + choice.get("text", "")).encode() for choice in choices]
        }
        if "finish_reason" in wanted:
            tensors["finish_reason"] = [
                str(choice.get("finish_reason")).encode() for choice in choices
            ]
        if "cumulative_logprob" in wanted:
            tensors["cumulative_logprob"] = self._cumulative(choices)
        if "logprobs" in wanted:
            tensors["logprobs"] = [await self._logprobs(choice) for choice in choices]
        if "num_input_tokens" in wanted:
            tensors["num_input_tokens"] = [chunk["usage"]["prompt_tokens"]]
        if "num_output_tokens" in wanted:
            tensors["num_output_tokens"] = [
                len(choice.get("token_ids") or ()) for choice in choices
            ]
        return tensors

    def _cumulative(self, choices: list[dict[str, Any]]) -> list[float]:
        for i, choice in enumerate(choices):
            logprobs = choice.get("logprobs") or {}
            self._cumulative_logprobs[i] += sum(
                value for value in logprobs.get("token_logprobs", ()) if value is not None
            )
        return list(self._cumulative_logprobs)

    async def _logprobs(self, choice: dict[str, Any]) -> bytes:
        """A JSON list with one object per token: token id to logprob, rank and text.

        The completions API returns no ranks. Alternatives are ordered best first, which ranks them;
        a chosen token that is not among them has rank null.
        """
        logprobs = choice.get("logprobs")
        if "logprobs" not in self._generation.sampling or logprobs is None:
            return b"null"
        requested = int(self._generation.sampling["logprobs"])
        tokens = []
        for chosen, alternatives in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True):
            ordered = sorted((alternatives or {}).items(), key=lambda item: -item[1])
            tokens.append(
                {
                    _token_id(token): {
                        "logprob": logprob,
                        "rank": rank if rank <= requested or token != chosen else None,
                        "decoded_token": await self._decode_token(_token_id(token)),
                    }
                    for rank, (token, logprob) in enumerate(ordered, start=1)
                }
            )
        return json.dumps(tokens).encode()


def _token_id(token: str) -> int:
    """The id in `token_id:7042`, vLLM's form under `return_tokens_as_token_ids`."""
    return int(token.removeprefix("token_id:"))
