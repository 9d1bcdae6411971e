"""Plans: a proposed change as data, and the named reasons for which one is refused."""

from headgate.plans.plan import Move, Pin, Plan, apply
from headgate.plans.refusal import Reason, Refusal

__all__ = ["Move", "Pin", "Plan", "Reason", "Refusal", "apply"]
