"""Refinement: a sample of the placement is partitioned anew, beginning with what is there."""
