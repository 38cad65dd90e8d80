"""Ask a model through the gateway and stream its answer."""

from __future__ import annotations

import asyncio
import difflib
from typing import Annotated

import typer

from cli.applied import Applied, AppliedModel
from cli.console import results, say
from cli.environment import find
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.protocols import openai_http
from cli.protocols.answer import Answer, collect
from cli.protocols.probe import NAMES

app = typer.Typer(add_completion=False)


@app.command()
def chat(  # noqa: PLR0917  (typer passes options by name)
    model: Annotated[str, typer.Argument(help="A model's name or alias.")],
    prompt: Annotated[str, typer.Argument(help="What to ask.")],
    stack: Stack = DEFAULT_STACK,
    grpc: Annotated[
        bool, typer.Option("--grpc", help="Use Triton's gRPC instead of the OpenAI API.")
    ] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 256,
    system: Annotated[str | None, typer.Option(help="Instructions before the question.")] = None,
) -> None:
    """Ask a model through the gateway and stream its answer."""
    _must_be_text(prompt, "the prompt")
    _must_be_text(system or "", "--system")
    with lifecycle_of(find(stack)).asked() as applied:
        known = _known(applied, model)
        _must_speak(known, "grpc" if grpc else "http")
        answer = asyncio.run(
            _stream(applied, known.name, prompt, grpc=grpc, max_tokens=max_tokens, system=system)
        )
    results.print()
    say(
        f"TTFT {answer.ttft_s * 1000:.0f} ms, {answer.tokens} tokens, "
        f"{answer.tokens_per_s:.1f} tokens/s over {'gRPC' if grpc else 'OpenAI SSE'}"
    )


def _must_speak(model: AppliedModel, protocol: str) -> None:
    if protocol not in model.protocols:
        other = "without --grpc" if protocol == "grpc" else "with --grpc"
        raise CliError(
            f'the model "{model.name}" does not speak {NAMES[protocol]}\'s protocol',
            fix=f"ask it {other}",
            exit_code=WRONG_INPUT,
        )


def _must_be_text(text: str, what: str) -> None:
    """Both protocols carry UTF-8. Python keeps other bytes of the command line as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CliError(
            f"{what} is not UTF-8 text",
            fix="convert it, for example with iconv -f latin1 -t utf-8",
            exit_code=WRONG_INPUT,
        ) from None


def _known(applied: Applied, name: str) -> AppliedModel:
    model = applied.model(name)
    if model is not None:
        return model
    names = sorted(applied.names())
    near = difflib.get_close_matches(name, names, n=1)
    raise CliError(
        f'the environment "{applied.environment}" serves no model "{name}"',
        fix=f'did you mean "{near[0]}"?' if near else f"use one of: {', '.join(names) or 'none'}",
        exit_code=WRONG_INPUT,
    )


async def _stream(
    applied: Applied, model: str, prompt: str, *, grpc: bool, max_tokens: int, system: str | None
) -> Answer:
    def show(text: str) -> None:
        results.print(text, end="", markup=False)
        results.file.flush()

    if not grpc:
        pieces = openai_http.stream_chat(
            applied.gateway_http,
            model,
            prompt,
            system=system,
            max_tokens=max_tokens,
            tls=applied.tls,
        )
        return await collect(pieces, show)
    # Its import takes a third of a second, more than the first token does.
    from cli.protocols import triton_grpc  # noqa: PLC0415

    pieces = triton_grpc.stream_chat(
        applied.gateway_grpc,
        model,
        prompt,
        system=system,
        max_tokens=max_tokens,
        tls=applied.tls,
    )
    return await collect(pieces, show)
