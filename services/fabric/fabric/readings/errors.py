"""Why an output gives no reading. None of these is ever a pass."""

from __future__ import annotations


class ReadingError(Exception):
    """`tool` is the program whose output it is; the message continues a sentence about it."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(f"{tool} {message}")
        self.tool = tool


class UnknownFormError(ReadingError):
    """The output is of a version or of options that the parser does not know."""

    def __init__(self, tool: str, detail: str) -> None:
        super().__init__(tool, f"has an unknown form: {detail}")


class CutOffError(ReadingError):
    """The output ends before what was asked for."""

    def __init__(self, tool: str, wanted: str) -> None:
        super().__init__(tool, f"ends before {wanted}")


class ToolFailedError(ReadingError):
    """The tool itself says that it failed."""

    def __init__(self, tool: str, said: str) -> None:
        super().__init__(tool, f"failed: {said}")


class AbsentError(ReadingError):
    """The tool says that what is planned is not there."""
