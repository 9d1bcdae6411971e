"""The solvers of `headgate.policies.horizon` where there is a plan; None is for bounds that no shares can keep."""

from headgate.policies import horizon


def least_imbalance(unit, shares, **settings):
    plan = horizon.least_imbalance(unit, shares, **settings)
    assert plan is not None
    return plan


def least_time(unit, shares, **settings):
    plan = horizon.least_time(unit, shares, **settings)
    assert plan is not None
    return plan
