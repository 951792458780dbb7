"""Where there are several objectives: the candidates that no other one beats in all of them."""

from __future__ import annotations

from clients.reports.facts import RunFacts
from clients.reports.formatting import signed
from workflows.model.run.decisions import FrontMember


def front_of(facts: RunFacts) -> tuple[FrontMember, ...]:
    """The front as the newest round left it."""
    return next((record.pareto_front for record in reversed(facts.rounds) if record.pareto_front), ())


def front_objectives(facts: RunFacts) -> list[str]:
    """The objectives that its gains are in."""
    return list(dict.fromkeys(name for member in front_of(facts) for name in member.gains))


def member_name(facts: RunFacts, member: FrontMember) -> str:
    """`3 r2-8f0c44a1`, by the number of its iteration."""
    number = next((one.number for one in facts.iterations if one.candidate_id == member.candidate_id), None)
    return member.candidate_id if number is None else f"{number} {member.candidate_id}"


def gain_text(member: FrontMember, objective: str) -> str:
    """`+0.05 (better)`, over the baseline; positive is better whatever the direction."""
    if objective not in member.gains:
        return "not measured"
    verdict = member.verdicts.get(objective)
    return signed(member.gains[objective]) + (f" ({verdict.value.replace('_', ' ')})" if verdict else "")
