"""Which hosts measure with each other, round by round."""

from __future__ import annotations

from collections.abc import Collection

Pair = tuple[str, str]


def rounds(hosts: Collection[str], busy: Collection[str] = ()) -> list[list[Pair]]:
    """Rounds in which every host that is not busy has one partner, until each has met each other
    one: a tournament by the circle method. With an odd number one host rests in each round. Pairs
    of a round share no host, so they can measure at the same time."""
    players: list[str | None] = [*sorted(set(hosts) - set(busy))]
    if len(players) < 2:
        return []
    if len(players) % 2:
        players.append(None)
    first, *others = players
    half = len(players) // 2
    made: list[list[Pair]] = []
    for _ in range(len(others)):
        circle = [first, *others]
        sides = zip(circle[:half], reversed(circle[half:]), strict=True)
        made.append([(a, b) for a, b in sides if a is not None and b is not None])
        others = [others[-1], *others[:-1]]
    return made
