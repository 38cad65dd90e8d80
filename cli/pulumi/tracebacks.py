"""The traceback that Python prints when the official language host is interrupted."""

from __future__ import annotations

import re

# A program's output appears in its stack's row as it is printed, and in the diagnostics at the end.
_ROW = re.compile(r"^.{4}pulumi:pulumi:Stack \S+ \w+(?: \(\d+s\))? (?P<text>.*)$")
_DIAGNOSTICS = "Diagnostics:"
_DIAGNOSTIC = re.compile(r"^ {4}(?P<text>.*)$")
_FIRST = re.compile(
    r"(error: )?(Traceback \(most recent call last\)|Program failed with an unhandled exception):$"
)
_NEXT = re.compile(
    r"(During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):$|>$|\s"
)


class Tracebacks:
    """Recognises tracebacks in Pulumi's output, given line by line."""

    def __init__(self) -> None:
        self._place = _ROW
        self._leave()

    def covers(self, line: str) -> bool:
        """Whether `line`, the next one, belongs to a traceback."""
        if line.startswith(_DIAGNOSTICS):
            self._place = _DIAGNOSTIC
        found = self._place.match(line)
        if found is not None:
            return self._continues(found["text"])
        if self._place is _DIAGNOSTIC and line.strip():
            self._leave()  # another resource's row, which may come in between
        return False

    def _leave(self) -> None:
        self._in_frames = False
        self._in_exception = False  # the message may have several lines, and others may follow

    def _continues(self, text: str) -> bool:
        if _FIRST.match(text):
            self._in_frames, self._in_exception = True, False
            return True
        if self._in_frames:
            self._in_frames = text[:1].isspace()
            self._in_exception = not self._in_frames
            return True
        self._in_exception = self._in_exception and bool(_NEXT.match(text))
        return self._in_exception
