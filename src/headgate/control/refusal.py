"""Why a plan was not carried out: always one of these names, with a detail for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """The names of refusals. A name is stable: journals and dashboards hold it."""

    stale_table = "stale_table"
    gain_below_cost = "gain_below_cost"
    cool_down = "cool_down"
    policy_raised = "policy_raised"
    invalid_plan = "invalid_plan"
    observe_only = "observe_only"
    advise_only = "advise_only"
    nothing_to_do = "nothing_to_do"
    key_too_hot = "key_too_hot"
    unmeasured = "unmeasured"
    unsettled = "unsettled"
    infeasible = "infeasible"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A name and a detail with the values that led to it."""

    name: Reason
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON-native values in a stable order."""
        return {"name": self.name.value, "detail": self.detail}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Refusal:
        """Read what `to_json` wrote."""
        return cls(Reason(data["name"]), data["detail"])
