"""Ask a model through the gateway and stream its answer."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.applied import Applied
from cli.console import results, say
from cli.environment import find
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.protocols import openai_http
from cli.protocols.answer import Answer, collect
from cli.protocols.asked_model import known_model, must_speak

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
        known = known_model(applied, model)
        other = "without --grpc" if grpc else "with --grpc"
        must_speak(known, "grpc" if grpc else "http", fix=f"ask it {other}")
        answer = asyncio.run(
            _stream(applied, known.name, prompt, grpc=grpc, max_tokens=max_tokens, system=system)
        )
    results.print()
    say(
        f"TTFT {answer.ttft_s * 1000:.0f} ms, {answer.tokens} tokens, "
        f"{answer.tokens_per_s:.1f} tokens/s over {'gRPC' if grpc else 'OpenAI SSE'}"
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
