"""Room for labels in a picture: near what they name, without covering anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]  # rows of left, bottom, right, top in pixels

# Pixels: around a label, from its point at most, between places to try, the width of a line.
_GAP, _FARTHEST, _STEP, _LINE = 3.0, 200.0, 4.0, 2.0
_TINY = 1e-9
# Below the point first: there a front has fewest points.
_DIRECTIONS = tuple(
    np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    for degrees in (225, 250, 270, 290, 200, 315, 180, 0, 20, 45, 70, 90, 110, 135, 160, 340)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The centre of a label, and the two ends of the line from its point."""

    centre: tuple[float, float]
    leader: tuple[Boxes, Boxes]


@dataclass(slots=True, kw_only=True)
class LabelRoom:
    """`taken` is where no label goes; no line to a label crosses what is `barred`."""

    frame: Boxes
    taken: Boxes
    barred: Boxes
    marker: float  # radius of what is labelled

    def take(self, at: Boxes, width: float, height: float) -> Placed | None:
        """The nearest free place for a label of this size, which is taken then; None without."""
        half = np.array([width, height]) / 2 + _GAP
        for distance in np.arange(2 * self.marker, _FARTHEST, _STEP):
            for direction in _DIRECTIONS:
                way = direction * (distance + half)
                centre, begin = at + way, at + direction * self.marker
                end = centre - way * (half / np.maximum(np.abs(way), _TINY)).min()  # at the border
                box, leader = boxes_around(centre[None], half), boxes_along(begin, end)
                if self._is_free(box, leader, at):
                    self.taken = np.vstack([self.taken, box, leader])
                    self.barred = np.vstack([self.barred, box, leader])
                    return Placed(centre=(centre[0], centre[1]), leader=(begin, end))
        return None

    def _is_free(self, box: Boxes, leader: Boxes, at: Boxes) -> bool:
        inside = (box[:, :2] >= self.frame[:2]).all() and (box[:, 2:] <= self.frame[2:]).all()
        if not inside or _overlap(self.taken, box):
            return False
        own = (self.barred[:, :2] <= at).all(axis=1) & (self.barred[:, 2:] >= at).all(axis=1)
        return not _overlap(self.barred[~own], leader)


def boxes_around(centres: Boxes, half: Boxes | float) -> Boxes:
    """`half` of width and height; one row for each of the centres."""
    return np.hstack([centres - half, centres + half])


def boxes_along(begin: Boxes, end: Boxes) -> Boxes:
    """Small boxes that cover a line."""
    steps = 2 + int(np.hypot(*(end - begin)) / _LINE)
    return boxes_around(np.linspace(begin, end, steps), _LINE / 2)


def _overlap(some: Boxes, others: Boxes) -> bool:
    """Whether any of `some` covers a part of any of `others`."""
    one, other = some[:, None], others[None]
    covers = (one[..., :2] < other[..., 2:]) & (one[..., 2:] > other[..., :2])
    return bool(covers.all(axis=2).any())
