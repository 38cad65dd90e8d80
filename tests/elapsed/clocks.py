"""Finds comparisons of elapsed time, wherever in a file the clock was read.

Followed are the values of clocks through assignments, attributes, containers, parameters and what
functions of the file return. Two moments may be compared, because that asks for their order; so may
a moment and one that is HANG_S later, because that only ends a hang.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum, auto
from typing import TypeVar

from tests.elapsed.modules import Finding, Module, is_hang, named, root


class Kind(Enum):
    MOMENT = auto()  # a reading of a clock
    DATE = auto()  # one of the calendar
    END = auto()  # HANG_S after a moment, or the time until then
    SPAN = auto()  # the time between two moments, or any other time after one


Kinds = frozenset[Kind]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Key = TypeVar("Key")
NONE: Kinds = frozenset()
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
CLOCKS = {
    f"{name}{unit}"
    for name in ("monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
} | {"time_ns", "clock_gettime"}
CALENDARS = ("now", "utcnow")
# Whatever these are given is in what they return.
NUMBERS = {"min", "max", "abs", "round", "float", "int", "sum", "isclose", "approx"}
STATISTICS = {"median", "mean", "fmean", "quantiles", "total_seconds"}
CONTAINERS = {"sorted", "list", "tuple", "set", "next", "iter", "reversed", "zip", "enumerate"}
COROUTINES = {"run", "gather", "to_thread", "create_task", "wait_for"}
HANDING_ON = NUMBERS | STATISTICS | CONTAINERS | COROUTINES
FILLING = ("append", "add", "insert", "extend", "appendleft", "put", "put_nowait", "set_result")


class Clocks(ast.NodeVisitor):
    """Visits a file until no more names are found to hold a time."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = defaultdict[tuple[str, str], Kinds](lambda: NONE)  # of a function, or ""
        self.attributes = defaultdict[str, Kinds](lambda: NONE)
        self.returned = defaultdict[str, Kinds](lambda: NONE)
        self.functions = module.functions
        self.fields = {
            node.name: _fields(node) for node in module.nodes if isinstance(node, ast.ClassDef)
        }
        self.scopes: list[str] = [""]
        self.classes: list[str] = []
        self.changed = True
        self.found: dict[tuple[int, int], Finding] = {}

    def findings(self) -> Iterator[Finding]:
        while self.changed:
            self.changed = False
            self.visit(self.module.tree)
        yield from self.found.values()

    # What holds a time

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                default = statement.value
                self._hold(ast.Attribute(ast.Name("self"), statement.target.id), self._of(default))
        self.generic_visit(node)
        self.classes.pop()

    def visit_FunctionDef(self, node: Function) -> None:
        self.scopes.append(node.name)
        self.generic_visit(node)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  (the visitor's name)

    def visit_Return(self, node: ast.Return | ast.Yield) -> None:
        self._add(self.returned, self.scopes[-1], self._of(node.value))
        self.generic_visit(node)

    visit_Yield = visit_Return  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._hold(node.target, self._of(node.value))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._hold(node.target, self._of(ast.BinOp(node.target, node.op, node.value)))
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._hold(node.target, self._of(node.value))
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._hold(node.target, self._of(node.iter))
        self.generic_visit(node)

    visit_AsyncFor = visit_comprehension = visit_For  # noqa: N815

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars:
            self._hold(node.optional_vars, self._of(node.context_expr))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = named(node.func)
        if name in FILLING and isinstance(node.func, ast.Attribute):
            for argument in node.args:
                self._hold(node.func.value, self._of(argument))
        if name in self.functions:
            self._pass(name, node)
        for keyword in node.keywords:
            if name in self.fields and keyword.arg:
                self._add(self.attributes, keyword.arg, self._of(keyword.value))
        for field, argument in zip(self.fields.get(name, ()), node.args, strict=False):
            self._add(self.attributes, field, self._of(argument))
        self.generic_visit(node)

    def _pass(self, name: str, call: ast.Call) -> None:
        """Binds the parameters of a function of this file."""
        arguments = self.functions[name].args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        bound = names[1:] if names[:1] in (["self"], ["cls"]) else names
        for parameter, argument in zip(bound, call.args, strict=False):
            self._add(self.names, (name, parameter), self._of(argument))
        for keyword in call.keywords:
            if keyword.arg:
                self._add(self.names, (name, keyword.arg), self._of(keyword.value))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for each, its in zip(targets, values, strict=True):
                    self._assign(each, its)
            case _:
                self._hold(target, self._of(value))

    def _hold(self, target: ast.expr, kinds: Kinds) -> None:
        match target:
            case ast.Name(id=name):
                self._add(self.names, (self._scope_of(name), name), kinds)
            case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                self._add(self.attributes, name, kinds)
            case ast.Subscript(value=container) | ast.Starred(value=container):
                self._hold(container, kinds)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for each in targets:
                    self._hold(each, kinds)

    def _scope_of(self, name: str) -> str:
        """The function that has the name already, else the innermost."""
        known = (scope for scope in reversed(self.scopes) if (scope, name) in self.names)
        return next(known, self.scopes[-1])

    def _add(self, held: defaultdict[Key, Kinds], key: Key, kinds: Kinds) -> None:
        if kinds - held[key]:
            held[key] |= kinds
            self.changed = True

    # What an expression is

    def _of(self, value: ast.expr | None) -> Kinds:
        match value:
            case ast.Name(id=name):
                if name in CLOCKS and name in self.module.foreign:
                    return frozenset({Kind.MOMENT})
                return self.returned[name] | self.names[self._scope_of(name), name]
            case ast.Attribute():
                return self._of_attribute(value)
            case ast.Call():
                return self._of_call(value)
            case ast.BinOp():
                return self._of_operation(value)
            case ast.Subscript(value=container, slice=ast.Constant(value=str(name))):
                return self.attributes[name] | self._of(container)
            case ast.Compare() | ast.JoinedStr() | ast.Lambda() | ast.Constant() | None:
                return NONE
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._of(value.elt)
            case ast.DictComp():
                return self._of(value.value)
            case ast.Dict():
                return self._of_dict(value)
            case ast.IfExp():
                return self._of(value.body) | self._of(value.orelse)
        return self._union(ast.iter_child_nodes(value))

    def _union(self, values: Iterator[ast.AST] | list[ast.expr]) -> Kinds:
        return NONE.union(*(self._of(each) for each in values if isinstance(each, ast.expr)))

    def _of_dict(self, value: ast.Dict) -> Kinds:
        for key, its in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._add(self.attributes, key.value, self._of(its))
        return NONE

    def _of_attribute(self, value: ast.Attribute) -> Kinds:
        if value.attr in CLOCKS and root(value) in self.module.foreign:
            return frozenset({Kind.MOMENT})
        if value.attr == "time" and root(value) == "time":
            return frozenset({Kind.MOMENT})
        if value.attr in CALENDARS and root(value) in ("datetime", "dt"):
            return frozenset({Kind.DATE})
        own = self.returned[value.attr] if value.attr in self.functions else NONE
        return own | self.attributes[value.attr] | self._of(value.value)

    def _of_call(self, call: ast.Call) -> Kinds:
        name = named(call.func)
        if name == "time" and isinstance(call.func, ast.Attribute) and not call.args:
            return frozenset({Kind.MOMENT})  # of the clock, or of an event loop
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        handed = self._union(given) if name in HANDING_ON or name == "field" else NONE
        return self._of(call.func) | handed

    def _of_operation(self, value: ast.BinOp) -> Kinds:
        left, right = self._of(value.left), self._of(value.right)
        kinds = left | right
        if Kind.SPAN in kinds:
            return kinds
        if Kind.DATE in kinds:
            difference = isinstance(value.op, ast.Sub) and Kind.DATE in left and Kind.DATE in right
            return frozenset({Kind.SPAN}) if difference else kinds
        if Kind.END in kinds:
            return frozenset({Kind.END})
        if Kind.MOMENT not in kinds:
            return kinds
        to_end = isinstance(value.op, ast.Add) and (is_hang(value.left) or is_hang(value.right))
        return frozenset({Kind.END if to_end else Kind.SPAN})

    # What is refused

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [self._of(each) for each in (node.left, *node.comparators)]
        kinds = NONE.union(*operands)
        ordered = any(isinstance(each, ORDERS) for each in node.ops)
        with_a_number = Kind.MOMENT in kinds and NONE in operands
        if ordered and (Kind.SPAN in kinds or with_a_number):
            text = f"`{ast.unparse(node)}` depends on how fast the machine is"
            self.found[node.lineno, node.col_offset] = Finding(node.lineno, text)
        self.generic_visit(node)


def _fields(node: ast.ClassDef) -> list[str]:
    return [
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
