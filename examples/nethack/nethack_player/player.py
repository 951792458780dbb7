"""The player: five skills, and a policy of six parameters that says which of them acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nethack_player.game import DIRECTIONS, FOOD, KICK, POTION, PRAY, Game, Monster, Place
from nethack_player.level import CLOSED_DOORS, DOWNSTAIRS, UPSTAIRS, Level

NEVER_TOUCHED = frozenset({
    "floating eye", "acid blob", "blue jelly", "spotted jelly", "gas spore", "cockatrice", "chickatrice", "brown mold",
    "yellow mold", "green mold", "red mold", "shopkeeper", "watchman", "aligned priest",
})  # fmt: skip
"""Whoever strikes them is worse off."""

NEAR = 3
"""Steps within which a hostile monster is a threat."""

MEALS = {
    "food ration": 800, "cram ration": 600, "lembas wafer": 800, "C-ration": 300, "K-ration": 400, "tripe ration": 200,
    "pancake": 200, "lump of royal jelly": 200, "melon": 100, "cream pie": 100, "candy bar": 100, "orange": 80, "banana": 80,
    "egg": 80, "apple": 50, "pear": 50, "carrot": 50, "fortune cookie": 40, "clove of garlic": 40,
}  # fmt: skip
"""What is safe to eat, and for how many turns it lasts."""

FULL = 900
"""Turns that a new player can go without a meal."""

WEAK = 3
FIRST_PRAYER, BETWEEN_PRAYERS = 300, 1000
"""Turns. Gods do not listen to whoever asks too often."""

LONG, SHORT = 10, 2
"""Turns of searching or resting at once."""

PER_RANK = 0.06
"""What a place further up in the order of skills is worth beside the urgency of the situation."""

IDLE = 6
"""Commands in a row that took no time in the game; then something else is tried."""

STUBBORN = 3
"""Attempts to step somewhere before the place is given up."""


@dataclass(frozen=True)
class Policy:
    """What may change about the player."""

    health_threshold: float
    """Below this share of hit points the player is in danger."""
    hunger_threshold: float
    """Eat when hunger exceeds this: 0 is well fed, 1 is starving."""
    max_exploration_steps: int
    """So many commands on a level; then the stairs down are taken as soon as they are known."""
    max_combat_attempts: int
    """So many blows at one opponent; then the player would rather get away."""
    risk_tolerance: float
    """0 is in danger early and descends in good health only; 1 does the opposite."""
    skill_priority: list[str]
    """Between skills that are about as urgent, the earlier one acts."""

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> Policy:
        return cls(**{name: configuration[name] for name in cls.__dataclass_fields__})

    @property
    def alarm(self) -> float:
        """The share of hit points below which there is danger, all things considered."""
        return min(0.95, self.health_threshold * (1.5 - self.risk_tolerance))

    @property
    def fit_to_descend(self) -> float:
        return 1 - 0.8 * self.risk_tolerance


class Player:
    """Plays one game by one policy, and keeps what there is to say about it afterwards."""

    def __init__(self, game: Game, policy: Policy) -> None:
        self.game = game
        self.policy = policy
        self.lowest_health = 1.0
        self.hungriest = game.hunger
        self.deepest = game.depth
        self.longest_stay = 0
        self.blows = 0
        self.broken_off = 0
        self._levels: dict[tuple[int, int], Level] = {}
        self._last_meal = 0
        self._inedible: set[str] = set()
        self._last_prayer = FIRST_PRAYER - BETWEEN_PRAYERS
        self._blows_at_opponent = 0
        self._hostile: list[Monster] = []
        self._adjacent: list[Monster] = []
        self._peaceful: set[Place] = set()
        self._warded: tuple[Place, int] | None = None
        """Where Elbereth was written, and how many hit points were left then."""
        self._path: list[Place] = []
        self._idle = 0
        self.level = self._arrived()

    def play(self, turns: int, keys: int) -> None:
        """Until the game is over, or so many turns or keys are used up."""
        while not self.game.over and self.game.turn < turns and self.game.keys < keys:
            self.act()

    def act(self) -> None:
        """Look, decide, do one thing, and notice what came of it."""
        game, turn, place = self.game, self.game.turn, self.game.level
        self.level.look(game)
        self._look_around()
        getattr(self, self.chosen_skill())()
        self._idle = self._idle + 1 if game.turn == turn else 0
        if self._idle >= IDLE:
            self._path = []
            self._wait(1)
        if game.level != place:
            self.level = self._arrived()
        self.level.commands += 1
        self.lowest_health = min(self.lowest_health, game.health)
        self.hungriest = max(self.hungriest, game.hunger)
        self.deepest = max(self.deepest, game.depth)
        self.longest_stay = max(self.longest_stay, game.turn - self.level.arrived)

    def _look_around(self) -> None:
        self._hostile = [m for m in self.game.monsters() if m.place not in self._peaceful and m.name not in NEVER_TOUCHED]
        self._adjacent = [m for m in self._hostile if _distance(m.place, self.game.place) == 1]
        if not self._adjacent:
            self._blows_at_opponent = 0

    # -- which skill ------------------------------------------------------------------------------------------------------

    def chosen_skill(self) -> str:
        """The most urgent one; the policy's order decides between those that are about as urgent."""
        order = self.policy.skill_priority
        worth = {skill: self._urgency(skill) + PER_RANK * (len(order) - rank) for rank, skill in enumerate(order)}
        return max(order, key=lambda skill: worth[skill])

    def _urgency(self, skill: str) -> float:
        danger = max(0.0, 1 - self.game.health / self.policy.alarm) if self.policy.alarm else 0.0
        match skill:
            case "explore":
                return 0.4
            case "fight":
                return 0.7 if self._adjacent and not self._had_enough() else 0.0
            case "flee":
                return self._urgency_to_flee(danger)
            case "eat":
                beyond = self.hunger - self.policy.hunger_threshold
                return 0.45 + 0.5 * beyond if beyond > 0 and not self._adjacent and self._meal() else 0.0
            case "use_item":
                if self._may_pray() and self._in_trouble():
                    return 0.95
                return 0.5 + 0.4 * danger if danger and self._adjacent and self._potion() else 0.0
        return 0.0

    def _urgency_to_flee(self, danger: float) -> float:
        if self._adjacent and self._had_enough():
            return 0.5 + 0.4 * danger
        if not danger:
            return 0.0
        # A rest where nobody is near costs little; whoever runs from a fight is struck in the back.
        return (0.35 if self._near(NEAR) else 0.5) + 0.4 * danger

    def _had_enough(self) -> bool:
        return self._blows_at_opponent >= self.policy.max_combat_attempts

    @property
    def hunger(self) -> float:
        """0 is well fed, 1 is starving: counted in turns since the last meal, corrected by what the game shows."""
        counted = (self.game.turn - self._last_meal) / FULL
        least, most = {0: (0.0, 0.1), 1: (0.0, 0.83), 2: (0.83, 0.95)}.get(self.game.hunger, (1.0, 1.0))
        return min(max(counted, least), most)

    # -- the skills -------------------------------------------------------------------------------------------------------

    def fight(self) -> None:
        """A blow at whoever stands next."""
        opponent = min(self._adjacent, key=lambda each: each.place)
        self._blows_at_opponent += 1
        self.blows += 1
        self.broken_off += self._had_enough()
        if "Really attack" in self.game.do("F", self._towards(opponent.place)):
            self._peaceful.add(opponent.place)

    def flee(self) -> None:
        """Up the stairs if they are near; else behind the word that monsters dread. Where nobody is near, rest."""
        game = self.game
        near = self._near(2 * NEAR)
        if not near:
            self._wait(LONG)
        elif game.place in self.level.stairs(UPSTAIRS) and game.depth > 1:
            game.do("<")
        elif not self._adjacent and (way := self._way_up(near)) is not None:
            self._step(way)
        elif self._warded is None or self._warded[0] != game.place or game.hit_points < self._warded[1]:
            game.do("E", "-", text="Elbereth")
            self._warded = (game.place, game.hit_points)
        else:
            self._wait(SHORT)

    def eat(self) -> None:
        """A meal from the pack."""
        meal = self._meal()
        assert meal is not None
        letter, name = meal
        turn = self.game.turn
        self.game.do("e", letter)
        if self.game.turn == turn:
            self._inedible.add(letter)
        else:
            lasts = next(turns for food, turns in MEALS.items() if food in name)
            self._last_meal = min(self.game.turn, self._last_meal + lasts)

    def use_item(self) -> None:
        """A prayer if the gods may listen, else a potion."""
        if self._may_pray() and self._in_trouble():
            self._last_prayer = self.game.turn
            if "stomach feels content" in self.game.do(PRAY):
                self._last_meal = self.game.turn
        elif (potion := self._potion()) is not None:
            self.game.do("q", potion)

    def explore(self) -> None:
        """See more of the level, find the way down, and take it."""
        level, game = self.level, self.game
        if game.place in level.stairs(DOWNSTAIRS) and self._wants_down():
            if game.health < self.policy.fit_to_descend and not self._hostile:
                self._wait(LONG)
            else:
                game.do(">")
        elif self._path and not self._hostile and _distance(game.place, self._path[0]) == 1:
            self._step(self._path.pop(0))
        elif (way := self._way_to_something_new()) is not None:
            self._path = way[1:]
            self._step(way[0])
        else:
            self._search_for_something_hidden()

    # -- parts of skills --------------------------------------------------------------------------------------------------

    def _wants_down(self) -> bool:
        return self.level.commands >= self.policy.max_exploration_steps

    def _way_to_something_new(self) -> list[Place] | None:
        """Down, if that is wanted and known; else to where something may be seen; else down all the same."""
        level, here = self.level, self.game.place
        avoid = {m.place for m in self.game.monsters() if m.place in self._peaceful or m.name in NEVER_TOUCHED}
        down = set(level.stairs(DOWNSTAIRS))
        to_the_stairs = level.path(here, down.__contains__, avoid) if down else None
        if to_the_stairs and self._wants_down():
            return to_the_stairs
        if (way := level.path(here, level.is_frontier, avoid)) is not None:
            return way
        level.commands = max(level.commands, self.policy.max_exploration_steps)  # all there is was seen
        return to_the_stairs

    def _search_for_something_hidden(self) -> None:
        level, here = self.level, self.game.place
        best = level.likeliest_hiding_place(here)
        way = level.path(here, best.__eq__) if best != here else None
        if way:
            self._path = way[1:]
            self._step(way[0])
        else:
            level.searched[here] = level.searched.get(here, 0) + 1
            self._wait(LONG)

    def _way_up(self, near: list[Monster]) -> Place | None:
        up = set(self.level.stairs(UPSTAIRS))
        if not up or self.game.depth == 1:
            return None
        way = self.level.path(self.game.place, up.__contains__, {m.place for m in near})
        return way[0] if way and len(way) <= 2 * NEAR else None

    def _wait(self, turns: int) -> None:
        """Searching finds what is hidden, and is as good as a rest; it ends when somebody comes."""
        self.game.do(*str(turns), "s")

    def _step(self, there: Place) -> None:
        """One step. Doors are opened or kicked in; what does not give way is remembered."""
        game, level, here = self.game, self.level, self.game.place
        if not level.can_step(here, there):
            self._path = []
            return
        key, place = self._towards(there), game.level
        if level.kind(there) in CLOSED_DOORS:
            if "locked" in game.do("o", key):
                game.do(KICK, key)
            return
        said = game.do(key)
        if game.over or game.place != here or game.level != place:
            return
        self._path = []
        if "Really attack" in said or "You stop" in said:
            self._peaceful.add(there)
        level.refused[there] = level.refused.get(there, 0) + 1
        if level.refused[there] >= STUBBORN and all(m.place != there for m in self._hostile):
            level.blocked.add(there)

    def _towards(self, there: Place) -> str:
        here = self.game.place
        return DIRECTIONS[(_sign(there[0] - here[0]), _sign(there[1] - here[1]))]

    def _near(self, steps: int) -> list[Monster]:
        return [m for m in self._hostile if _distance(m.place, self.game.place) <= steps]

    def _meal(self) -> tuple[str, str] | None:
        carried = ((letter, name) for letter, name in self.game.carried(FOOD) if letter not in self._inedible)
        return next(((letter, name) for letter, name in carried if any(food in name for food in MEALS)), None)

    def _potion(self) -> str | None:
        return next((letter for letter, _ in self.game.carried(POTION)), None)

    def _may_pray(self) -> bool:
        return self.game.turn - self._last_prayer >= BETWEEN_PRAYERS

    def _in_trouble(self) -> bool:
        """What gods count as trouble: hardly alive, or weak from hunger."""
        game = self.game
        return game.health < 1 / 7 or game.hit_points <= 5 or game.hunger >= WEAK

    def _arrived(self) -> Level:
        self._peaceful, self._path, self._warded = set(), [], None
        level = self._levels.setdefault(self.game.level, Level())
        level.arrived = self.game.turn
        return level


def _distance(one: Place, other: Place) -> int:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
