"""Runs one Pulumi program inside the program's own interpreter.

Imports the SDK and what the program imports first, before Pulumi has it run the program: while that
loads its plugins and refreshes its state, or earlier, in the server whose fork this is. Then reads
its arguments and more variables from standard input, as JSON.

The process is started by program.py. Exit status: 0 done, 1 failed, 32 failed and the error has
already been shown.
"""

import argparse
import ast
import asyncio
import gc
import json
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType

from toolchain.forks.client import leave_checkout
from toolchain.language_host.first_imports import first_imports

EXIT_ALREADY_REPORTED = 32
# The SDK's callers wait in threads: a few for each resource operation that runs in parallel.
THREADS_PER_OPERATION = 4
# Nearly all that a program imports and makes lives until it ends.
COLLECT_CYCLES_AFTER = 100_000  # allocations


def main(arguments: list[str]) -> None:
    """Run the program of standard input, and exit with its status.

    The only argument is the file or folder of that program, whose imports come early.
    """
    leave_checkout()
    sys.exit(_run_task(Path(arguments[0])))


def _run_task(program: Path) -> int:
    gc.set_threshold(COLLECT_CYCLES_AFTER, 50, 100)
    missing = ""
    try:
        import pulumi  # noqa: PLC0415 - if it is missing, the message below says so
    except ImportError as problem:
        missing = str(problem)
    else:
        _import_early(program)
    text = sys.stdin.read()
    if not text:  # Pulumi ended before it ran the program, or never meant to run it
        return 0
    if missing:
        print(  # noqa: T201
            f"{sys.executable} cannot import the Pulumi SDK ({missing}). Install the program's "
            "requirements into the virtual environment of runtime.options, or correct the option.",
            file=sys.stderr,
        )
        return 1
    task = json.loads(text)
    os.environ.update(task["variables"])
    arguments = _parse(task["arguments"])
    runtime = pulumi.runtime
    runtime.set_all_config(runtime.get_config_env(), runtime.get_config_secret_keys_env())
    runtime.configure(
        runtime.Settings(
            project=arguments.project,
            stack=arguments.stack,
            organization=arguments.organization,
            root_directory=arguments.root_directory,
            monitor=arguments.monitor,
            engine=arguments.engine,
            parallel=arguments.parallel,
            dry_run=arguments.dry_run == "true",
        )
    )
    os.chdir(arguments.pwd)
    sys.argv = [arguments.program, *arguments.arguments]
    return _run(arguments.program, max(arguments.parallel, 1))


def _import_early(program: Path) -> None:
    """Executes the imports at the top of the program's file.

    One that fails does so again in the program, where the user is told. Pulumi's settings are not
    known yet, so no module may read them when it is imported.
    """
    is_folder = program.is_dir()
    file = program / "__main__.py" if is_folder else program
    if is_folder:  # runpy does the same
        sys.path.insert(0, str(program))
    with suppress(Exception):
        imports = ast.Module(list(first_imports(file)), type_ignores=[])
        exec(compile(imports, file, "exec"), {"__name__": ""})  # noqa: S102 - the user's program
    if is_folder:
        with suppress(ValueError):  # removed by a module
            sys.path.remove(str(program))


def _parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run a Pulumi program.")
    for name in ("monitor", "engine", "project", "root_directory", "stack", "organization"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--pwd", default=".")
    parser.add_argument("--dry_run", default="false")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args(given)


def _run(program: str, parallel: int) -> int:
    import pulumi  # noqa: PLC0415

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    threads = ThreadPoolExecutor(max_workers=parallel * THREADS_PER_OPERATION)
    loop.set_default_executor(threads)
    # A failed program leaves futures that nobody awaits; asyncio would report each of them.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)

    def run_program() -> None:
        runpy.run_path(program, run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(run_program))
    except pulumi.RunError as problem:  # its text is meant for the user
        pulumi.log.error(str(problem))
        return EXIT_ALREADY_REPORTED
    except Exception as problem:
        pulumi.log.error("The program failed:\n" + _program_traceback(problem))
        return EXIT_ALREADY_REPORTED
    finally:
        threads.shutdown(wait=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _program_traceback(problem: Exception) -> str:
    """The traceback without the frames of this script, `runpy` and the SDK above the program."""
    trace = problem.__traceback__
    first = trace
    while first is not None and not _is_program(first.tb_frame):
        first = first.tb_next
    return "".join(traceback.format_exception(type(problem), problem, first or trace))


def _is_program(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_filename != __file__
