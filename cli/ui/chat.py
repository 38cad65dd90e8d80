"""Asks a model through the gateway for the page, and tells how fast it answered."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cli.applied import Applied, AppliedModel
from cli.certificates import trusted
from cli.protocols.answer import Answer, NoAnswerError, Piece, TimedStream
from cli.protocols.openai_http import stream_chat
from cli.ui import rendering
from cli.ui.body import TooLongError, body_within
from cli.ui.session import Session

MOST_TOKENS = 2048
_MAX_TOKENS = re.compile(r"[0-9]{1,4}")  # int() refuses thousands of digits
LONGEST_PROMPT = 100_000  # characters
LONGEST_FORM = 4 * LONGEST_PROMPT  # bytes: a character of UTF-8, encoded in a form, has up to 12
CHAT = "/chat"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    model: AppliedModel
    prompt: str
    max_tokens: int


class WrongQuestionError(Exception):
    """The form has no question that can be asked; the message says why."""


class Chat:
    """Answers POST /chat: as events for a browser with JavaScript, as a page for others."""

    def __init__(self, applied: Callable[[], Applied]) -> None:
        self._applied = applied
        trusted()  # is read only once: now, and not while the first answer is timed

    async def answer(self, request: Request) -> Response:
        session: Session = request.state.session
        if not _is_a_form(request):
            return PlainTextResponse("The question comes as a form.\n", status_code=415)
        try:
            form = await body_within(request, LONGEST_FORM)
        except TooLongError:
            return PlainTextResponse("The question is too long.\n", status_code=413)
        fields = dict(parse_qsl(form.decode("ascii", "replace")))
        own_form = secrets.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode())
        if not own_form:
            return PlainTextResponse("Only this page's own form is answered.\n", status_code=403)
        try:
            applied = self._applied()
            question = question_of(fields, applied)
        except WrongQuestionError as error:
            return PlainTextResponse(f"{error}\n", status_code=422)
        if EVENTS in request.headers.get("accept", ""):
            return StreamingResponse(_as_events(_pieces(applied, question)), media_type=EVENTS)
        return StreamingResponse(
            _as_page(question, _pieces(applied, question)), media_type="text/html; charset=utf-8"
        )


def _pieces(applied: Applied, question: Question) -> AsyncIterator[Piece]:
    return stream_chat(
        applied.gateway_http,
        question.model.name,
        question.prompt,
        max_tokens=question.max_tokens,
        tls=applied.tls,
    )


def _is_a_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")


def question_of(fields: Mapping[str, str], applied: Applied) -> Question:
    """Raises WrongQuestionError."""
    name, prompt = fields.get("model", ""), fields.get("prompt", "").strip()
    model = applied.model(name)
    if model is None or "http" not in model.protocols:
        raise WrongQuestionError(f"No model {name} answers here.")
    if not prompt:
        raise WrongQuestionError("There is no question.")
    if len(prompt) > LONGEST_PROMPT:
        raise WrongQuestionError(f"A question has at most {LONGEST_PROMPT:,} characters.")
    tokens = fields.get("max_tokens", "256")
    if not _MAX_TOKENS.fullmatch(tokens) or not 1 <= int(tokens) <= MOST_TOKENS:
        raise WrongQuestionError(f"The longest answer has 1 to {MOST_TOKENS:,} tokens.")
    return Question(model=model, prompt=prompt, max_tokens=int(tokens))


def figures(answer: Answer) -> str:
    return (
        f"TTFT {answer.ttft_s * 1000:,.0f} ms, {answer.tokens:,} tokens,"
        f" {answer.tokens_per_s:,.1f} tokens/s"
    )


def failed(error: NoAnswerError) -> str:
    return f"{error.message} (fix: {error.fix})"


async def _as_events(pieces: AsyncIterator[Piece]) -> AsyncIterator[str]:
    stream = TimedStream(pieces)
    try:
        async for text in stream.texts():
            yield _event({"text": text})
    except NoAnswerError as error:
        yield _event({"failure": failed(error)})
    else:
        yield _event({"figures": figures(stream.answer)})


async def _as_page(question: Question, pieces: AsyncIterator[Piece]) -> AsyncIterator[str]:
    stream = TimedStream(pieces)
    yield rendering.answer_head(question.model.name, question.prompt)
    try:
        async for text in stream.texts():
            yield rendering.answer_text(text)
    except NoAnswerError as error:
        yield rendering.answer_foot("", failed(error))
    else:
        yield rendering.answer_foot(figures(stream.answer), "")


def _event(document: dict[str, str]) -> str:
    return f"data: {json.dumps(document)}\n\n"
