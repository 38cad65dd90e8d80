"""The one place that turns a known failure into a message, a fix and an exit code."""

from __future__ import annotations

import errno
import sys

from slipway.config.errors import ConfigError
from toolchain.errors import CancelledError, ToolchainError

FAILED = 1  # the machine's or the run's fault
WRONG_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class CliError(Exception):
    """A failure that a person can act on."""

    def __init__(self, message: str, *, fix: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.exit_code = exit_code


class InterruptedRunError(CliError):
    """The user interrupted the command, which ended cleanly."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message, fix=fix, exit_code=INTERRUPTED)


def explained(error: BaseException, command: str) -> CliError | None:
    """The message for an `error` of `slipway <command>`; None if it is a defect of Slipway."""
    if isinstance(error, CliError):
        return error
    if isinstance(error, ConfigError):
        return _config_error(error)
    if isinstance(error, ToolchainError):
        return CliError(error.message, fix=error.fix, exit_code=error.exit_code)
    if isinstance(error, KeyboardInterrupt | CancelledError):
        return InterruptedRunError(
            "interrupted", fix=f"run `slipway {command}` again: it continues from here"
        )
    if isinstance(error, OSError):
        return _os_error(error)
    return _http_error(error)


def text_of(error: CliError) -> str:
    return f"{error.message}\n    fix: {error.fix}" if error.fix else error.message


def _config_error(error: ConfigError) -> CliError:
    count = len(error.problems)
    head = "the configuration has a mistake" if count == 1 else f"{count} mistakes"
    # Each problem has its own fix.
    return CliError(f"{head}; nothing was changed\n{error}", fix="", exit_code=WRONG_INPUT)


def _os_error(error: OSError) -> CliError | None:
    if error.errno in _FULL:
        return CliError(
            f"no space left while writing {error.filename or 'a file'}",
            fix="free some disk space (`df -h` shows it), then run the same command again",
        )
    if error.filename is None:
        return None
    fix = (
        f"make {error.filename} accessible to your user"
        if error.errno in _DENIED
        else "correct that, then run the same command again"
    )
    return CliError(f"{error.filename}: {error.strerror}", fix=fix)


def _http_error(error: BaseException) -> CliError | None:
    # A command that has not loaded httpx cannot have failed in it.
    httpx = sys.modules.get("httpx")
    if httpx is None or not isinstance(error, httpx.HTTPError):
        return None
    if isinstance(error, httpx.HTTPStatusError):
        url, status = error.request.url, error.response.status_code
        return CliError(
            f"{error.request.method} {url}: HTTP {status} {error.response.reason_phrase}",
            fix="slipway status shows what runs; slipway up repairs the environment",
        )
    try:
        place = str(error.request.url)
    except RuntimeError:  # raised by httpx if an error belongs to no request
        place = "the platform"
    return CliError(
        f"{place}: {error or type(error).__name__}",
        fix="slipway status shows what runs, and what to do if nothing does",
    )
