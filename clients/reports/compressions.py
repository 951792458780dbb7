"""What a compression came to, in words."""

from __future__ import annotations

from clients.reports.formatting import percent_text
from workflows.model.run.compression_report import Compression, EditReport


def compression_text(found: Compression) -> str:
    """`95 → 24 tokens (-74.74%), 4 of 5 edits kept; confirmed`"""
    if not found.edits:
        return "nothing was found that could be shorter"
    if not found.has_modifications:
        return f"none of {len(found.edits)} edits kept; {found.tokens_before} tokens stay"
    share = f" ({percent_text(-100 * found.total_token_reduction / found.tokens_before)})" if found.tokens_before else ""
    kept = sum(1 for edit in found.edits if edit.kept)
    confirmed = {True: "; confirmed", False: "; NOT confirmed", None: ""}[found.confirmed]
    return f"{found.tokens_before} → {found.tokens_after} tokens{share}, {kept} of {len(found.edits)} edits kept{confirmed}"


def edit_text(edit: EditReport) -> str:
    """`prompt, ablation: 24 tokens, passed 61.7% alone, 2 samples broke; alone: not worse`"""
    rate = "" if edit.pass_rate is None else f", passed {edit.pass_rate:.1%} alone"
    broke = edit.regression_count
    broken = f", {broke} sample{'' if broke == 1 else 's'} broke" if broke else ""
    return f"{edit.section_path}, {edit.strategy}: {edit.token_reduction} tokens{rate}{broken}; {edit.reason}"
