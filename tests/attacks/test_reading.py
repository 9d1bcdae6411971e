"""Reading results: in the order of time, and at the price of what is read."""

from datetime import datetime

import numpy as np
import pyarrow as pa
from tests.sql.world import rows_of

from headgate.service import results


def moments(count: int) -> pa.Table:
    """Rows of one source, half a second apart and shuffled: as texts, every second one sorts wrongly."""
    rows = rows_of(np.random.default_rng(1), count)
    times = np.random.default_rng(2).permutation(count) * 500_000 + 1_700_000_000_000_000
    rows = rows.set_column(
        rows.column_names.index("time"), "time", pa.array(times, rows.schema.field("time").type)
    )
    return rows.set_column(
        rows.column_names.index("source"),
        "source",
        pa.array(np.zeros(count), rows.schema.field("source").type),
    )


def test_results_come_in_the_order_of_time(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    local.feed(moments(40))
    for limit in (3, 100):
        found, cursor = list[str](), None
        while len(found) < 40:
            rows, cursor = local.service.read(local.ann, number, cursor, limit)
            found += [row["time"] for row in rows]
        assert found == sorted(found, key=datetime.fromisoformat)


def test_reading_ten_rows_decodes_ten(local, monkeypatch) -> None:
    decoded = []
    original = results.result_json

    def counted(*arguments):
        decoded.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(results, "result_json", counted)
    (number,) = local.add("SELECT x FROM alpha")
    local.feed(moments(200))
    first, cursor = local.service.read(local.ann, number, None, 10)
    second, _ = local.service.read(local.ann, number, cursor, 10)
    assert len(first) == len(second) == 10
    assert len(decoded) == 20
