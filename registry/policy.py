"""What may be called, asked for or denied: one rule, applied before any tool is run, whichever way the call came.

What a tool says of itself (MCP's annotations) comes from its source and is a hint, so it can only make a rule stricter
than an operator's, never milder: where an operator names a tool, that holds.
"""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["allow", "ask", "deny"]
"""May run; runs if a person says yes each time; never runs."""
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`reason`: one sentence, for a person and for a model: what stands against the call and what to do."""

    verdict: Verdict
    reason: str = ""
