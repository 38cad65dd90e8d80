"""Finds waits that a slow machine can outlast: those of less than a minute.

A wait of HANG_S or longer only ends a hang. Shorter times are given to the program under test
alone, as constants whose names begin with GIVEN_.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.elapsed.modules import HANG_S, Finding, Module, is_hang, named, parsed, root

# The place of the limit among the arguments.
WAITS = {
    "wait": 0,
    "join": 0,
    "result": 0,
    "settimeout": 0,
    "setdefaulttimeout": 0,
    "alarm": 0,
    "timeout": 0,  # asyncio's, and pytest's mark
    "Timeout": 0,  # httpx's
    "wait_for": 1,
    "acquire": 1,
    "communicate": 1,
    "create_connection": 1,
    "select": 3,
}
LIMITS = ("timeout", "timeout_s", "within_s", "at_most_s", "deadline_s", "patience_s")
GIVEN = "GIVEN_"


def short_waits(module: Module) -> Iterator[Finding]:
    pauses = set(_pauses(module))
    for node in module.nodes:
        if isinstance(node, ast.Call) and node not in pauses:
            yield from _of_call(node, module)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_defaults(node, module)
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from _of_tries(node, module)
    for name, value in module.assigned.items():
        seconds = module.number(value)
        if is_hang(ast.Name(id=name)) and seconds is not None and seconds < HANG_S:
            yield Finding(value.lineno, f"{name} is at least {HANG_S} s")


def _pauses(module: Module) -> Iterator[ast.Call]:
    """`while not over.wait(0.1)`: the time between two looks."""
    for node in module.nodes:
        match node:
            case ast.While(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call)):
                yield call


def _of_call(call: ast.Call, module: Module) -> Iterator[Finding]:
    for limit in _limits(call, module):
        seconds = module.number(limit)
        if seconds is None or seconds >= HANG_S or seconds == 0:
            continue
        if named(limit).startswith(GIVEN) and not _waits_here(call, module):
            continue
        text = f"{ast.unparse(call.func)} waits {seconds:g} s, which a slow machine can outlast"
        yield Finding(call.lineno, text)


def _limits(call: ast.Call, module: Module) -> Iterator[ast.expr]:
    name = named(call.func)
    constructs = name[:1].isupper()
    if not (constructs and _of_program(call, module)):
        yield from (keyword.value for keyword in call.keywords if keyword.arg in LIMITS)
    place = WAITS.get(name, _place(call, module))
    if place is not None and len(call.args) > place:
        yield call.args[place]
    match call:
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=True), limit]):
            yield limit  # a queue's


def _place(call: ast.Call, module: Module) -> int | None:
    """Where a function of the tests takes its limit."""
    if not isinstance(call.func, ast.Name):
        return None
    function = module.functions.get(call.func.id)
    if function is None and call.func.id in module.imports:
        file, there = module.imports[call.func.id]
        function = parsed(file).functions.get(there) if "tests" in file.parts else None
    names = [argument.arg for argument in function.args.args] if function else []
    return next((place for place, name in enumerate(names) if name in LIMITS), None)


def _of_program(call: ast.Call, module: Module) -> bool:
    """Whether what is called comes from the program under test."""
    found = module.imports.get(root(call.func))
    return found is not None and "tests" not in found[0].parts


def _waits_here(call: ast.Call, module: Module) -> bool:
    """Whether a test waits, and not the program."""
    if _of_program(call, module):
        return False
    first = root(call.func)
    return named(call.func) in WAITS or first in module.imports or first in module.foreign


def _of_defaults(
    function: ast.FunctionDef | ast.AsyncFunctionDef, module: Module
) -> Iterator[Finding]:
    arguments = function.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    defaults = zip(
        (*positional, *arguments.kwonlyargs),
        (*arguments.defaults, *arguments.kw_defaults),
        strict=True,
    )
    for argument, default in defaults:
        seconds = module.number(default) if default else None
        if argument.arg in LIMITS and seconds is not None and seconds < HANG_S:
            text = f"{function.name} waits {seconds:g} s, which a slow machine can outlast"
            yield Finding(function.lineno, text)


def _of_tries(loop: ast.For | ast.AsyncFor, module: Module) -> Iterator[Finding]:
    """`for _ in range(100): ... sleep(0.1)` waits 10 s."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[tries]):
            times = module.number(tries)
        case _:
            return
    pauses = [
        seconds
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and named(node.func) == "sleep" and node.args
        if (seconds := module.number(node.args[0])) is not None
    ]
    if times is not None and pauses and times * sum(pauses) < HANG_S:
        text = f"{times:g} tries wait {times * sum(pauses):g} s, which a slow machine can outlast"
        yield Finding(loop.lineno, text)
