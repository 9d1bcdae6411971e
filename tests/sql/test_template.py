"""Templates: what queries share, and what keeps them apart."""

from tests.sql.world import KINDS, PREPARER

from headgate.sql.source_schema import SourceSchema


def test_constants_and_sources_are_no_part_of_the_template() -> None:
    one = PREPARER.prepare("SELECT x FROM alpha WHERE n > 5 AND city = 'ash'", KINDS)
    other = PREPARER.prepare("SELECT x FROM beta WHERE n > 7 AND city = 'it''s'", KINDS)
    assert one.template == other.template
    assert (one.sources, one.constants) == (("alpha",), (5, "ash"))
    assert (other.sources, other.constants) == (("beta",), (7, "it's"))
    third = PREPARER.prepare("SELECT x FROM beta WHERE n > 7.0 AND city = 'it''s'", KINDS)
    assert third.template != one.template


def test_windows_are_part_of_the_template() -> None:
    text = "SELECT count(*) FROM alpha WHERE x > {} GROUP BY TUMBLE(time, INTERVAL '{} seconds')"
    one, same, other = (
        PREPARER.prepare(text.format(*v), KINDS).template for v in ((1, 10), (2, 10), (1, 20))
    )
    assert one == same != other


def test_sources_of_another_kind_are_read_anew() -> None:
    kinds = {**KINDS, "delta": SourceSchema({"city": "varchar", "n": "double", "x": "bigint"})}
    one, other = (
        PREPARER.prepare(f"SELECT x FROM {s} WHERE n > 5", kinds).template for s in ("alpha", "delta")
    )
    assert one.outputs == ("r0.d0",)
    assert other.outputs == ("r0.l0",)
