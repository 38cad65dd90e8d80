"""The engine in real time: steps of the core take as long as the profile says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from program.liveness.progress import Progress

from simulator.core.scheduler import Limits, Scheduler, Step
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile
from simulator.document import BadInputError, EngineSettings, Replica
from simulator.faults import NONE, Faults, InjectedError
from simulator.generation import Generation
from simulator.group.pipeline import OneStage, Pipeline
from simulator.metrics import EngineMetrics
from simulator.text import Answer, answer, tokenise

BLOCK_SIZE = 16
# A loop that falls behind on a busy machine catches up by this much at most: otherwise a burst of
# tokens would follow every pause of the process.
_CATCH_UP_S = 0.1
# A scheduler that finds no memory for any sequence tries again, as vLLM's does without a pause.
_RETRY_S = 0.1


class NotReadyError(Exception):
    """The model's simulated loading has not finished."""


class RequestError(Exception):
    """The request cannot be served by this model; the message is for the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks for. Without `max_tokens` the answer has the usual length, or `at_most` so
    many tokens."""

    prompt: str
    prompt_tokens: tuple[int, ...] | None = None  # given by clients that tokenise themselves
    max_tokens: int | None
    at_most: int | None = None
    answer: Answer | None = None  # what must be said, where the answer has a form
    stop: tuple[str, ...] = ()
    faults: Faults = NONE

    @property
    def said(self) -> Answer:
        return self.answer or answer(self.prompt)


class Engine:
    """One model. `run` must be running for requests to make progress, which `progress` tells."""

    def __init__(
        self,
        replica: Replica,
        profile: Profile,
        progress: Progress,
        pipeline: Pipeline | None = None,
    ) -> None:
        settings = replica.engine
        self.replica = replica
        self.profile = profile
        self.scheduler = Scheduler(_limits(settings, profile))
        self.metrics = EngineMetrics(replica.model, self.scheduler, settings.max_model_len)
        self.faults = settings.faults
        self.progress = progress
        self.pipeline = pipeline or OneStage()
        self._loaded = False
        self._under_way = 0  # sequences in the step that passes the members now
        self._error_debt = 0.0
        self._generations: dict[Sequence, Generation] = {}
        self._changed = asyncio.Event()

    @property
    def ready(self) -> bool:
        return self._loaded and not self.faults.not_ready

    def set_faults(self, faults: Faults) -> None:
        """Replaces the faults of the whole process, from the next step and request on."""
        self.faults = faults
        self._changed.set()

    async def run(self) -> None:
        """Joins its group and loads, then runs steps until it is cancelled.

        Raises GroupError if the group cannot be formed.
        """
        await self.pipeline.form()
        await asyncio.sleep(self.replica.engine.startup_s)
        self._loaded = True
        clock = asyncio.get_running_loop().time
        deadline_s = clock()
        while True:
            if not self._may_step:
                self._changed.clear()
                await self._changed.wait()
                deadline_s = clock()
                continue
            step = self._next_step()
            if step.idle:
                await asyncio.sleep(_RETRY_S)
                self.progress.step_ended()
                deadline_s = clock()
                continue
            deadline_s = max(deadline_s, clock() - _CATCH_UP_S) + self._step_s(step)
            await self._pass(step)
            await asyncio.sleep(deadline_s - clock())
            self._deliver(step, clock())

    @contextmanager
    def generate(self, request: Request) -> Iterator[Generation]:
        """A generation that ends with the block, whether it is finished or not.

        Raises:
            NotReadyError: the model is still loading.
            RequestError: the request is too long.
            InjectedError: the fault `error`.
        """
        if not self._loaded:
            raise NotReadyError("the model is not ready")
        sequence = self._sequence(request)
        if self._fails(request.faults):
            raise InjectedError("injected fault: the engine failed")
        now_s = asyncio.get_running_loop().time()
        whole = sequence.max_tokens == self._own_length(request)
        generation = Generation(
            sequence=sequence,
            answer=request.said,
            stop=request.stop,
            length_reason="stop" if whole else "length",
            faults=self._request_faults(request.faults),
            metrics=self.metrics,
            arrived_s=now_s,
        )
        self.scheduler.add(sequence)
        self._generations[sequence] = generation
        self._tell_outstanding()
        self._changed.set()
        try:
            yield generation
        finally:
            self._generations.pop(sequence, None)
            self.scheduler.abort(sequence)
            self._tell_outstanding()
            generation.finish("abort", asyncio.get_running_loop().time())

    def _sequence(self, request: Request) -> Sequence:
        prompt_tokens = request.prompt_tokens or tokenise(request.prompt)
        if not prompt_tokens:
            raise RequestError("the prompt is empty")
        limit = self.replica.engine.max_model_len
        room = limit - len(prompt_tokens)
        max_tokens = request.max_tokens or request.at_most
        if room < 1 or (max_tokens or 0) > room:
            raise RequestError(
                f"This model's maximum context length is {limit} tokens. However, you requested "
                f"{len(prompt_tokens) + (max_tokens or 1)} tokens ({len(prompt_tokens)} in the "
                f"prompt, {max_tokens or 1} in the completion)."
            )
        bounds = (self._own_length(request), max_tokens, room)
        return Sequence(
            prompt=prompt_tokens,
            max_tokens=min(bound for bound in bounds if bound is not None),
            output_token=request.said.token,
        )

    def _own_length(self, request: Request) -> int | None:
        """The tokens after which the answer ends by itself; None if it never does."""
        usual = self.replica.engine.answer_tokens if request.max_tokens is None else None
        return request.said.length or usual

    def _request_faults(self, own: Faults) -> Faults:
        return own if own.die is not None else Faults(**{**own.to_json(), "die": self.faults.die})

    def _fails(self, own: Faults) -> bool:
        """Deterministic: a rate of 0.25 fails every fourth request."""
        self._error_debt += own.error or self.faults.error
        if self._error_debt < 1:
            return False
        self._error_debt -= 1
        return True

    @property
    def _may_step(self) -> bool:
        return self.faults.hang is None and self.scheduler.has_work

    def _next_step(self) -> Step:
        self.scheduler.kv_full = self.faults.kv_full
        step = self.scheduler.schedule()
        now_s = asyncio.get_running_loop().time()
        for sequence, _ in step.work:
            self._generations[sequence].scheduled(now_s)
        return step

    def _step_s(self, step: Step) -> float:
        scale = self.replica.engine.time_scale * self.faults.slow
        return self.profile.step_ms(step) / 1000 * scale

    async def _pass(self, step: Step) -> None:
        self._under_way = len(step.work)
        await self.pipeline.pass_step()
        self._under_way = 0

    def _deliver(self, step: Step, now_s: float) -> None:
        for output in self.scheduler.complete(step):
            self._generations[output.sequence].put(last=output.last, now_s=now_s)
        self.progress.step_ended()
        self._tell_outstanding()

    def _tell_outstanding(self) -> None:
        """A step that is with other members is awaited, also when its clients have gone."""
        scheduler = self.scheduler
        requests = len(scheduler.waiting) + len(scheduler.running)
        self.progress.outstanding_are(max(requests, self._under_way))


def _limits(settings: EngineSettings, profile: Profile) -> Limits:
    kv_blocks = settings.kv_cache_bytes // (profile.kv_bytes_per_token * BLOCK_SIZE)
    if kv_blocks * BLOCK_SIZE < settings.max_model_len:
        raise BadInputError(
            f"engine.kv_cache_bytes: {settings.kv_cache_bytes} holds {kv_blocks * BLOCK_SIZE} "
            f"tokens of {settings.architecture}; max_model_len {settings.max_model_len} needs "
            f"{-(-settings.max_model_len // BLOCK_SIZE) * BLOCK_SIZE * profile.kv_bytes_per_token}"
        )
    if settings.max_num_batched_tokens < settings.max_num_seqs:
        raise BadInputError(
            f"engine.engine_args.max_num_batched_tokens: {settings.max_num_batched_tokens} must "
            f"be at least max_num_seqs ({settings.max_num_seqs})"
        )
    return Limits(
        max_num_seqs=settings.max_num_seqs,
        token_budget=settings.max_num_batched_tokens,
        kv_blocks=kv_blocks,
        block_size=BLOCK_SIZE,
    )
