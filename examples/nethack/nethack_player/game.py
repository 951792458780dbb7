"""The game itself: a seeded NetHack that is played by keys, with its questions answered and its state read off the screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from nle import nethack as nh

SEEN = ("glyphs", "blstats", "message", "misc", "inv_letters", "inv_oclasses", "inv_strs")
OPTIONS = (*(option for option in nh.NETHACKOPTIONS if not option.startswith("pickup_types")), "pickup_types:$%!", "!tips")
CHARACTER = "Agent-val-hum-neu-fem"

ESCAPE, RETURN = 27, 13
PRAY, KICK = 0x80 | ord("p"), 0x1F & ord("d")
FOOD, POTION = 7, 8
"""Classes of objects, as NetHack numbers them."""

DIRECTIONS = {
    (-1, 0): "k", (1, 0): "j", (0, -1): "h", (0, 1): "l",
    (-1, -1): "y", (-1, 1): "u", (1, -1): "b", (1, 1): "n",
}  # fmt: skip

ANSWERS = (
    ("Are you sure you want to pray", "y"),
    ("eat it?", "n"),
    ("Continue eating?", "y"),
    ("Stop eating?", "y"),
    ("Do you want to add to", "n"),
)
MOST_PROMPTS = 40

Place = tuple[int, int]
"""Row and column."""


@dataclass(frozen=True, slots=True)
class Monster:
    """Somebody in view who is not a pet."""

    place: Place
    name: str


@cache
def monster_name(glyph: int) -> str:
    """What kind of monster a glyph shows."""
    return str(nh.permonst(nh.glyph_to_mon(glyph)).mname)


class Game:
    """One game, from its first turn on; the same seed and the same keys give the same game."""

    def __init__(self, seed: int) -> None:
        # The phase of the moon changes the player's luck: without fixing it, an episode would depend on the date.
        self._nethack = nh.Nethack(
            observation_keys=SEEN, playername=CHARACTER, ttyrec=None, options=OPTIONS, fix_moon_phase=True
        )
        self._nethack.set_initial_seeds(seed, seed, False, seed)
        seen = dict(zip(SEEN, self._nethack.reset(), strict=True))
        self.glyphs: np.ndarray = seen["glyphs"]
        self._shown, self._message, self._prompt = seen["blstats"], seen["message"], seen["misc"]
        self._status = self._shown.copy()
        self._letters, self._classes, self._names = seen["inv_letters"], seen["inv_oclasses"], seen["inv_strs"]
        self.over = False
        self.said = ""
        self.keys = 0
        self._through_prompts()

    def do(self, command: str | int, *then: str | int, text: str = "") -> str:
        """Press keys, and write the text if the game asks for one; what it said meanwhile."""
        self.said = ""
        self._message[:] = 0
        for key in (command, *then):
            self._press(key)
        self._through_prompts(text)
        return self.said

    def close(self) -> None:
        self._nethack.close()

    @property
    def place(self) -> Place:
        return int(self._status[nh.NLE_BL_Y]), int(self._status[nh.NLE_BL_X])

    @property
    def hit_points(self) -> int:
        return int(self._status[nh.NLE_BL_HP])

    @property
    def health(self) -> float:
        """The share of hit points that is left."""
        return 0.0 if self.over else self.hit_points / max(1, int(self._status[nh.NLE_BL_HPMAX]))

    @property
    def turn(self) -> int:
        return int(self._status[nh.NLE_BL_TIME])

    @property
    def depth(self) -> int:
        return int(self._status[nh.NLE_BL_DEPTH])

    @property
    def level(self) -> tuple[int, int]:
        """Which branch of the dungeon, and which level of it."""
        return int(self._status[nh.NLE_BL_DNUM]), int(self._status[nh.NLE_BL_DLEVEL])

    @property
    def experience(self) -> int:
        return int(self._status[nh.NLE_BL_EXP])

    @property
    def hunger(self) -> int:
        """0 satiated, 1 not hungry, 2 hungry, 3 weak, 4 fainting."""
        return int(self._status[nh.NLE_BL_HUNGER])

    @property
    def starved(self) -> bool:
        return self.over and self._nethack.how_done() == nh.STARVING

    def carried(self, kind: int) -> Iterator[tuple[str, str]]:
        """Letter and name of what is carried of a class."""
        for letter, of_class, name in zip(self._letters, self._classes, self._names, strict=True):
            if letter and of_class == kind:
                yield chr(letter), bytes(name).split(b"\0", 1)[0].decode("latin-1")

    def monsters(self) -> list[Monster]:
        """Everybody in view but pets and oneself."""
        shown = (self.glyphs >= nh.GLYPH_MON_OFF) & (self.glyphs < nh.GLYPH_PET_OFF)
        invisible = self.glyphs == nh.GLYPH_INVISIBLE
        found = []
        for row, column in np.argwhere(shown | invisible):
            place = (int(row), int(column))
            if place != self.place:
                glyph = int(self.glyphs[place])
                found.append(Monster(place, "invisible" if glyph == nh.GLYPH_INVISIBLE else monster_name(glyph)))
        return found

    def _press(self, key: str | int) -> None:
        if self.over:
            return
        _, self.over = self._nethack.step(ord(key) if isinstance(key, str) else key)
        self.keys += 1
        if not self.over and self._shown[nh.NLE_BL_TIME] > 0:  # what is shown after the end is empty
            self._status = self._shown.copy()
        self._listen()

    def _listen(self) -> None:
        text = bytes(self._message).split(b"\0", 1)[0].decode("latin-1")
        if text:
            self.said = f"{self.said} {text}"[-2000:]

    def _through_prompts(self, text: str = "") -> None:
        """Read on, and answer what is asked, until the game waits for a command."""
        for _ in range(MOST_PROMPTS):
            asks, wants_text, wants_space = (bool(flag) for flag in self._prompt[:3])
            if self.over or not (asks or wants_text or wants_space):
                return
            if wants_space:
                self._press(RETURN)
            elif asks:
                asked = bytes(self._message).split(b"\0", 1)[0].decode("latin-1")
                self._press(next((answer for part, answer in ANSWERS if part in asked), ESCAPE))
            elif text:
                self._type(text)
                text = ""
            else:
                self._press(ESCAPE)

    def _type(self, text: str) -> None:
        for key in (*text, RETURN):
            self._press(key)
