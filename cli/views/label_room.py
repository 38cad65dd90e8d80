"""Finds room for labels in a picture: near their points, without covering anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]  # rows of left, bottom, right, top in pixels

# Pixels: margin around a label, largest distance from its point, step of the search, line width.
_GAP, _FARTHEST, _STEP, _LINE = 3.0, 400.0, 4.0, 2.0
_TINY = 1e-9
# Below the point first, where a front has the fewest points.
_ANGLES = np.radians([225, 250, 270, 290, 200, 315, 180, 0, 20, 45, 70, 90, 110, 135, 160, 340])
_DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The centre of a label, and the two ends of the line from its point."""

    centre: tuple[float, float]
    leader: tuple[Boxes, Boxes]


@dataclass(slots=True, kw_only=True)
class LabelRoom:
    """No label covers `taken`; lines to labels avoid `barred`."""

    frame: Boxes
    taken: Boxes
    barred: Boxes
    marker: float  # radius of the labelled point

    def take(self, at: Boxes, width: float, height: float) -> Placed | None:
        """Takes the nearest free place for a label of this size whose line crosses the least of
        what is barred; None if there is none."""
        half = np.array([width, height]) / 2 + _GAP

        crossing = list[tuple[int, Placed]]()
        for place in self._places(at, half):
            crossed = self._crossed(boxes_along(*place.leader), at)
            crossing.append((crossed, place))
            if not crossed:
                break
        if not crossing:
            return None
        _, chosen = min(crossing, key=itemgetter(0))
        label = boxes_around(np.array([chosen.centre]), half)
        leader = boxes_along(*chosen.leader)
        self.taken = np.vstack([self.taken, label, leader])
        self.barred = np.vstack([self.barred, label, leader])
        return chosen

    def _places(self, at: Boxes, half: Boxes) -> Iterator[Placed]:
        """All free places, nearest first."""
        reach = boxes_around(at[None], _FARTHEST + 2 * half)
        near = self.taken[_covered(self.taken, reach)]
        for distance in np.arange(2 * self.marker, _FARTHEST, _STEP):
            boxes = boxes_around(at + _DIRECTIONS * (distance + half), half)
            for index in np.flatnonzero(self._is_inside(boxes) & ~_covered(boxes, near)):
                way = _DIRECTIONS[index]
                centre = at + way * (distance + half)
                begin = at + way * self.marker
                outwards = way * (distance + half)
                end = centre - outwards * (half / np.maximum(np.abs(outwards), _TINY)).min()
                yield Placed(centre=(centre[0], centre[1]), leader=(begin, end))

    def _is_inside(self, boxes: Boxes) -> NDArray[np.bool_]:
        within = (boxes[:, :2] >= self.frame[:2]) & (boxes[:, 2:] <= self.frame[2:])
        inside: NDArray[np.bool_] = np.all(within, axis=1)
        return inside

    def _crossed(self, leader: Boxes, at: Boxes) -> int:
        """How much of a line covers what is barred, besides what its point is in."""
        own = (self.barred[:, :2] <= at).all(axis=1) & (self.barred[:, 2:] >= at).all(axis=1)
        return int(_covered(leader, self.barred[~own]).sum())


def boxes_around(centres: Boxes, half: Boxes | float) -> Boxes:
    """`half` of width and height; one row for each of the centres."""
    return np.hstack([centres - half, centres + half])


def boxes_along(begin: Boxes, end: Boxes) -> Boxes:
    """Small boxes that cover a line."""
    steps = 2 + int(np.hypot(*(end - begin)) / _LINE)
    return boxes_around(np.linspace(begin, end, steps), _LINE / 2)


def _covered(some: Boxes, by: Boxes) -> NDArray[np.bool_]:
    """For each of `some`, whether any of the others overlaps it."""
    left, bottom, right, top = some.T[..., None]
    covers = (left < by[:, 2]) & (right > by[:, 0]) & (bottom < by[:, 3]) & (top > by[:, 1])
    covered: NDArray[np.bool_] = covers.any(axis=1)
    return covered
