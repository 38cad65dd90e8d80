"""The imports at the top of a program, which can be done before it is run."""

import ast
from collections.abc import Iterator
from pathlib import Path


def first_imports(program: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports at the top of a program's file, which only its docstring precedes.

    OSError or SyntaxError if the file cannot be read.
    """
    module = ast.parse(program.read_bytes())
    after_docstring = 1 if ast.get_docstring(module, clean=False) is not None else 0
    for statement in module.body[after_docstring:]:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            return
        yield statement


def first_modules(program: Path) -> list[str]:
    """The modules that the imports at the top of a program's file name."""
    found = list[str]()
    for statement in first_imports(program):
        if isinstance(statement, ast.Import):
            found += [alias.name for alias in statement.names]
        elif statement.module and statement.module != "__future__":
            found.append(statement.module)
    return found
