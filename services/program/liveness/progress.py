"""What an engine tells of its progress: numbers in memory that it shares with its watcher.

The engine writes them between its steps. Whoever reads them needs no answer of the engine. One goes
the other way: the watcher of a group that may be lost has the engine turn new requests away.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass

VARIABLE = "SLIPWAY_PROGRESS"  # the path under which the watcher's processes find the memory
NUMBER_BYTES = 8
STEPS, OUTSTANDING, TURNS_AWAY, FIRST_BEAT = range(4)


@dataclass(frozen=True, slots=True)
class Seen:
    """`steps` that have ended so far; while `outstanding` is not 0, more are expected."""

    steps: int
    outstanding: int


class Progress:
    """Steps ended, requests outstanding, whether new ones are turned away, and beats of further
    parts, numbered from 0.

    Each number has one writer, and is written and read as a whole.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._numbers = memoryview(mmap.mmap(descriptor, 0)).cast("Q")

    @classmethod
    def create(cls, beating_parts: int = 1) -> Progress:
        """The watcher's own: it has no name, and ends with the last process that has it."""
        # Pythons that are built for any Linux have no memfd_create.
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())  # not inherited by children
        os.ftruncate(descriptor, (FIRST_BEAT + beating_parts) * NUMBER_BYTES)
        return cls(descriptor)

    @classmethod
    def open(cls, path: str) -> Progress:
        """That of a watcher. Raises OSError if it has ended."""
        return cls(os.open(path, os.O_RDWR))

    @property
    def path(self) -> str:
        """Where processes of the same user open it while this one runs."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def step_ended(self) -> None:
        self._numbers[STEPS] += 1

    def outstanding_are(self, requests: int) -> None:
        self._numbers[OUTSTANDING] = requests

    def seen(self) -> Seen:
        return Seen(self._numbers[STEPS], self._numbers[OUTSTANDING])

    def turn_away(self, turns_away: bool) -> None:
        """The watcher's: whether new requests are to be refused from now on."""
        self._numbers[TURNS_AWAY] = int(turns_away)

    @property
    def turns_away(self) -> bool:
        return bool(self._numbers[TURNS_AWAY])

    def beat(self, part: int) -> None:
        self._numbers[FIRST_BEAT + part] += 1

    def beats(self, part: int) -> Seen:
        """As the steps of something that always has work, once it has begun."""
        beats = self._numbers[FIRST_BEAT + part]
        return Seen(beats, min(beats, 1))
