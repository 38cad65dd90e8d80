"""A module of tests: its syntax, its constants, and where its names come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

HANG_S = 60  # a wait of at least as long only ends a hang


@dataclass(frozen=True)
class Finding:
    """What is refused, and where."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.line}: {self.what}"


@dataclass(frozen=True, eq=False)
class Module:
    """`roots` are the folders, nearest first, in which its imports are looked up."""

    tree: ast.Module
    roots: tuple[Path, ...] = ()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes but contexts and operators, in one walk: each is looked at for many things."""
        found: list[ast.AST] = [self.tree]
        for node in found:  # grows meanwhile
            for value in vars(node).values():
                if isinstance(value, list):
                    found.extend(each for each in value if isinstance(each, ast.AST))
                elif isinstance(value, ast.AST) and value._fields:
                    found.append(value)
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[Path, str]]:
        """Imported names of this project: the file and the name there ("" for the file itself)."""
        found = dict[str, tuple[Path, str]]()
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = alias.asname or alias.name
                    if file := file_of(node.module, self.roots):
                        found[name] = (file, alias.name)
                    elif file := file_of(f"{node.module}.{alias.name}", self.roots):
                        found[name] = (file, "")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if file := file_of(alias.name, self.roots):
                        found[alias.asname or alias.name.partition(".")[0]] = (file, "")
        return found

    @cached_property
    def foreign(self) -> set[str]:
        """Imported names of other packages."""
        names = {
            alias.asname or alias.name.partition(".")[0]
            for node in self.nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        return names - set(self.imports)

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """The values of the module's and the classes' names."""
        found = dict[str, ast.expr]()
        for node in self._statements():
            if isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
                found[node.target.id] = node.value
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    found.update(_pairs(target, node.value))
        return found

    def _statements(self) -> Iterator[ast.stmt]:
        yield from self.tree.body
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                yield from node.body

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """Functions and methods, by name."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name: node for node in self.nodes if isinstance(node, kinds)}

    def number(self, value: ast.expr) -> float | None:
        """What an expression of numbers and constants amounts to."""
        match value:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return self._constant(name)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in self.imports:
                return parsed(self.imports[owner][0])._constant(name)
            case ast.BinOp():
                return self._calculated(value)
            case ast.Call(func=ast.Name(id="min"), args=arguments):
                known = [n for each in arguments if (n := self.number(each)) is not None]
                return min(known, default=None)
        return None

    def _constant(self, name: str) -> float | None:
        if name in self.assigned:
            return self.number(self.assigned[name])
        if name in self.imports:
            file, there = self.imports[name]
            return parsed(file)._constant(there)
        return None

    def _calculated(self, value: ast.BinOp) -> float | None:
        left, right = self.number(value.left), self.number(value.right)
        if left is None or right is None:
            return None
        match value.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div() if right:
                return left / right
        return None


@cache
def file_of(module: str, roots: tuple[Path, ...]) -> Path | None:
    path = Path(*module.split("."))
    for root in roots:
        for file in (root / path.with_suffix(".py"), root / path / "__init__.py"):
            if file.is_file():
                return file
    return None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            for each, its in zip(targets, values, strict=False):
                yield from _pairs(each, its)


def named(function: ast.expr) -> str:
    """The last name of what is called: "wait" of `process.wait`."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def root(expression: ast.expr) -> str:
    """The first name: "process" of `process.wait`."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def is_hang(value: ast.expr) -> bool:
    """Whether it is a constant for hangs: `HANG_S`, `START_HANG_S`."""
    name = named(value)
    return name == "HANG_S" or name.endswith("_HANG_S")


@cache
def parsed(file: Path) -> Module:
    return Module(ast.parse(file.read_text()), roots_of(file))


def roots_of(file: Path) -> tuple[Path, ...]:
    """The file's folder and those above it in the project, with their `src`, and with the test
    support of the package that a service shares."""
    checkout, inside = Path(__file__).parents[2], ("src", "program/tests")
    folders = [folder for folder in file.parents if folder.is_relative_to(checkout)]
    return tuple(
        each for folder in folders for each in (folder, *(folder / name for name in inside))
    )
