"""Offline placement: algorithms that know every query beforehand, lower bounds, and reference solvers."""
