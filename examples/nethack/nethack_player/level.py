"""What is known of a level: where one can walk, what is still to be seen, and where the stairs are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator

import numpy as np
from nle import nethack as nh

from nethack_player.game import DIRECTIONS, Game, Place

ROWS, COLUMNS = 21, 79

STONE, DOORWAY, DARK_ROOM = 0, 12, 20
"""Kinds of places, as NetHack numbers them. Stone is also what nobody has seen yet."""

OPEN_DOORS, CLOSED_DOORS, CORRIDORS, UPSTAIRS, DOWNSTAIRS = (13, 14), (15, 16), (21, 22), (23, 25), (24, 26)
FLOOR = (DOORWAY, *OPEN_DOORS, 19, DARK_ROOM, *CORRIDORS, *UPSTAIRS, *DOWNSTAIRS, 27, 28, 29, 30, 31, 33)
WALLS = range(1, 12)
BOULDER = next(
    nh.GLYPH_OBJ_OFF + number for number in range(nh.NUM_OBJECTS) if nh.objdescr.from_idx(number).oc_name == "boulder"
)

NOBODY: Collection[Place] = ()


class Level:
    """One level as it has been seen so far: the screen remembers the map, this remembers the rest."""

    def __init__(self) -> None:
        self.visited: set[Place] = set()
        self.blocked: set[Place] = set()
        """Places that cannot be entered after all: a boulder that is stuck, somebody peaceful in the way."""
        self.searched: dict[Place, int] = {}
        self.refused: dict[Place, int] = {}
        self.commands = 0
        self.arrived = 0
        """The turn."""
        self._kind = np.zeros((ROWS, COLUMNS), dtype=np.int16)
        self._walkable = np.zeros((ROWS, COLUMNS), dtype=bool)

    def look(self, game: Game) -> None:
        """Read the map off the screen."""
        glyphs = game.glyphs
        features = (glyphs >= nh.GLYPH_CMAP_OFF) & (glyphs < nh.GLYPH_EXPLODE_OFF)
        kind = np.where(features, glyphs - nh.GLYPH_CMAP_OFF, -1).astype(np.int16)
        # Things and creatures hide what is below them; a door or stairs that were seen there before are still there.
        hidden = kind < 0
        kind[hidden] = np.where(self._kind[hidden] > 0, self._kind[hidden], DARK_ROOM)
        self._kind = kind
        self._walkable = np.isin(kind, FLOOR) & (glyphs != BOULDER)
        self.visited.add(game.place)

    def kind(self, place: Place) -> int:
        return int(self._kind[place])

    def stairs(self, kinds: tuple[int, int]) -> list[Place]:
        """Where stairs up or down have been seen."""
        return [(int(row), int(column)) for row, column in np.argwhere(np.isin(self._kind, kinds))]

    def neighbours(self, place: Place) -> Iterator[Place]:
        for row, column in DIRECTIONS:
            there = (place[0] + row, place[1] + column)
            if 0 < there[0] < ROWS and 0 < there[1] < COLUMNS:
                yield there

    def can_step(self, start: Place, end: Place) -> bool:
        """Whether one step leads there: not through walls, and never diagonally past a door (a mere doorway will do)."""
        if end in self.blocked or not (self._walkable[end] or self.kind(end) in CLOSED_DOORS):
            return False
        diagonal = start[0] != end[0] and start[1] != end[1]
        return not (diagonal and (self._has_door(start) or self._has_door(end)))

    def path(self, start: Place, wanted: Callable[[Place], bool], avoid: Collection[Place] = NOBODY) -> list[Place] | None:
        """The shortest way to the nearest place that is wanted, without the start; None when there is none."""
        before = {start: start}
        for place in self._walk(start, before, avoid):
            if place != start and wanted(place):
                way = [place]
                while before[way[-1]] != start:
                    way.append(before[way[-1]])
                return way[::-1]
        return None

    def is_frontier(self, place: Place) -> bool:
        """A place not stood on yet, from which something new may be seen."""
        if place in self.visited:
            return False
        if self._has_door(place) or self.kind(place) in (DOORWAY, *CORRIDORS):
            return True
        return any(self.kind(there) == STONE for there in self.neighbours(place))

    def likeliest_hiding_place(self, start: Place) -> Place:
        """Where a search for hidden passages promises most: near, little searched, a dead end, with much unknown around."""
        before = {start: start}
        steps = {start: 0}
        for place in self._walk(start, before, NOBODY):
            steps[place] = steps[before[place]] + 1
        return min(steps, key=lambda place: (self._doubt(place) + steps[place] / 4, place))

    def _doubt(self, place: Place) -> float:
        around = [self.kind(there) for there in self.neighbours(place)]
        walls = sum(kind in WALLS for kind in around)
        ways = sum(kind not in WALLS and kind != STONE for kind in around)
        is_dead_end = self.kind(place) in CORRIDORS and ways <= 1
        row, column = place
        unknown = float(np.mean(self._kind[max(1, row - 4) : row + 5, max(1, column - 7) : column + 8] == STONE))
        return 6 * self.searched.get(place, 0) - 25 * is_dead_end - 1.5 * min(walls, 3) - 12 * unknown

    def _walk(self, start: Place, before: dict[Place, Place], avoid: Collection[Place]) -> Iterator[Place]:
        """Every place that can be reached, the nearest first; `before` says from where."""
        waiting = deque([start])
        while waiting:
            place = waiting.popleft()
            yield place
            for there in self.neighbours(place):
                if there not in before and there not in avoid and self.can_step(place, there):
                    before[there] = place
                    waiting.append(there)

    def _has_door(self, place: Place) -> bool:
        return self.kind(place) in OPEN_DOORS or self.kind(place) in CLOSED_DOORS
