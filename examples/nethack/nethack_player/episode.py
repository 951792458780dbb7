"""Episodes as Ratchet sees them: a target that plays one, a score, and what went wrong over many of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nethack_player.game import Game
from nethack_player.player import WEAK, Player, Policy
from ratchet import ExperimentContext, Output, Record, Sample

PER_LEVEL, SURVIVED = 50, 100
"""Points, as NetHack itself counts levels; and for being alive at the end."""

INJURED = 0.2
"""The share of hit points below which an episode counts as a close call."""

TRAPPED = 0.5
"""The share of an episode on one level that counts as being stuck there."""


def play(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """One game, by its seed: the same seed and the same policy give the same episode, to the last key."""
    game = Game(sample.input)
    try:
        player = Player(game, Policy.of(configuration))
        player.play(configuration["max_turns"], configuration["max_keys"])
        return Output(
            {
                "survived": not game.over,
                "starved": game.starved,
                "turns": game.turn,
                "keys": game.keys,
                "deepest": player.deepest,
                "experience": game.experience,
                "lowest_health": round(player.lowest_health, 3),
                "hungriest": player.hungriest,
                "longest_stay": player.longest_stay,
                "blows": player.blows,
                "broken_off": player.broken_off,
                "last_words": game.said.strip()[-120:],
            }
        )
    finally:
        game.close()


def score(output: Output, sample: Sample) -> float:
    """How deep, how experienced, and whether alive."""
    episode = output.value
    return float(PER_LEVEL * (episode["deepest"] - 1) + episode["experience"] + SURVIVED * episode["survived"])


def failures(records: list[Record]) -> Mapping[str, int]:
    """How many episodes had each kind of failure; one may have several."""
    episodes = [record.output for record in records if isinstance(record.output, dict)]
    return {
        "injury": sum(episode["lowest_health"] < INJURED for episode in episodes),
        "starvation": sum(episode["hungriest"] >= WEAK for episode in episodes),
        "combat_loss": sum(not episode["survived"] and not episode["starved"] for episode in episodes),
        "entrapment": sum(episode["longest_stay"] >= TRAPPED * episode["turns"] for episode in episodes),
    }
