"""What a policy proposes, as the one thing that a test expects: a plan, or a refusal."""

from headgate.control import LoadView, Plan, Refusal
from headgate.control.policy import Policy
from headgate.routing.table import Table


def planned(policy: Policy, view: LoadView, table: Table) -> Plan:
    plan = policy.propose(view, table)
    assert isinstance(plan, Plan), plan
    return plan


def refused(policy: Policy, view: LoadView, table: Table) -> Refusal:
    refusal = policy.propose(view, table)
    assert isinstance(refusal, Refusal), refusal
    return refusal
