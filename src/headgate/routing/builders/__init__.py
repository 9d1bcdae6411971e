"""Builders of partitioning functions: scan, redist and readj from the paper, and `place` for bins and pins."""

from headgate.routing.builders.level import level
from headgate.routing.builders.placement import Bins, Hot, Placement, place
from headgate.routing.builders.problem import Assignment, Objective, Problem
from headgate.routing.builders.readj import readj
from headgate.routing.builders.rebuild import ALGORITHMS, Rebuilt, builder, rebuild
from headgate.routing.builders.redist import redist
from headgate.routing.builders.scan import scan
from headgate.routing.builders.too_hot import HotKey, imbalance_bound, too_hot

__all__ = [
    "ALGORITHMS",
    "Assignment",
    "Bins",
    "Hot",
    "HotKey",
    "Objective",
    "Placement",
    "Problem",
    "Rebuilt",
    "builder",
    "imbalance_bound",
    "level",
    "place",
    "readj",
    "rebuild",
    "redist",
    "scan",
    "too_hot",
]
