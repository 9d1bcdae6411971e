"""Every claim's row fails when its mechanism is broken: the tables are in `mutations` and `long_mutations`."""

from collections import Counter
from pathlib import Path

import pytest
from tests.lab.papers.long_mutations import LONG
from tests.lab.papers.mutations import FAST, NO_MUTATION, SLOW, Mutation

from headgate_lab.papers.claims import RUN_BY_THE_DIGEST, of_the_paper
from headgate_lab.papers.results import RESULTS, read, rows

ROOT = Path(__file__).parents[3]


def seen(mutation: Mutation, patch: pytest.MonkeyPatch) -> None:
    """The rows hold, and do not hold any more with the mechanism broken."""
    sound = mutation.claims()
    assert [name for name in mutation.rows if sound[name].ok is not True] == []
    mutation.patch(patch)
    broken = mutation.claims()
    assert [name for name in mutation.rows if broken[name].ok is not False] == []


@pytest.mark.parametrize("mutation", FAST, ids=lambda mutation: mutation.says)
def test_a_broken_mechanism_is_seen(mutation, monkeypatch) -> None:
    seen(mutation, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("mutation", [*SLOW, *LONG], ids=lambda mutation: mutation.says)
def test_a_broken_mechanism_is_seen_in_the_figures(mutation, monkeypatch) -> None:
    seen(mutation, monkeypatch)


def test_every_claim_that_holds_has_a_mutation_or_says_why_not() -> None:
    """A claim that does not hold needs none: it fails as it is."""
    covered = Counter(name for mutation in (*FAST, *SLOW, *LONG) for name in mutation.rows)
    assert [name for name, times in covered.items() if times > 1] == []
    held = {
        c.id for claims in rows(read(ROOT / RESULTS)).values() for c in claims if of_the_paper(c) and c.ok
    }
    assert sorted(held - set(covered) - set(NO_MUTATION)) == []
    assert sorted(set(NO_MUTATION) & set(covered)) == []
    assert all(why for why in NO_MUTATION.values())
    assert set(covered) >= RUN_BY_THE_DIGEST
