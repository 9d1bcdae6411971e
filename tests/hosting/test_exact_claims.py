"""The claims of the paper that small instances settle exactly: MX-19 to MX-25."""

import pytest

from headgate_lab.papers.mice.units import unit_claims

EXACT = {claim.id: claim for claim in unit_claims()}


@pytest.mark.parametrize("number", range(19, 26))
def test_exact_row(number: int) -> None:
    assert EXACT[f"MX-{number}"].ok, EXACT[f"MX-{number}"]
