"""Why a query was stopped while it ran is told in our own words: which value, and what to write instead."""

import numpy as np
import pyarrow as pa
from tests.service.local import PATIENT, Local
from tests.sql.test_run_words import FOREIGN
from tests.sql.world import rows_of

from headgate.service.queries import Query

KINDS = {
    "SELECT CAST(city AS BIGINT) FROM alpha": "is no bigint: TRY_CAST",
    "SELECT CAST(city AS TIMESTAMP) FROM alpha": "is no timestamp: write YYYY-MM-DD",
    "SELECT CAST(x * 1e300 AS BIGINT) FROM alpha": "is too large for bigint: TRY_CAST",
    "SELECT n % (n - n) FROM alpha": "nullif(divisor, 0)",
    "SELECT n * 9223372036854775807 FROM alpha": "is too large for its type",
    "SELECT to_timestamp(n * 9000000000000) FROM alpha": "is too large for its type",
    "SELECT time + n * INTERVAL '90000' YEAR FROM alpha": "lies outside of what a timestamp can hold",
    "SELECT strptime(city, '%Y') FROM alpha": "does not have the format '%Y'",
    "SELECT CAST(('{\"a\": [' || CAST(n AS VARCHAR) || ']}') -> '$.a' AS BIGINT) FROM alpha": "is no number: TRY_CAST",
    "SELECT regexp_replace(city || city || city, '.', '"
    + 900 * "long"
    + "', 'g') FROM beta": "regexp_replace made a text",
    "SELECT substring(city, n * 9000000000) FROM alpha": "substring begins or ends further away",
}
MEMORY = f"SELECT length({' || '.join(['city'] * 80)}) AS l FROM beta"
GOOD = "SELECT x, n FROM alpha"


def test_the_usual_failures_are_told_in_our_words_and_stop_nobody_else(tmp_path) -> None:
    local = Local(tmp_path, limits=PATIENT, servers=1, memory="40MB")
    answers = local.service.register(local.ann, [(text, "") for text in (*KINDS, MEMORY, GOOD)])
    taken = {
        text: one.id
        for text, one in zip((*KINDS, MEMORY, GOOD), answers, strict=True)
        if isinstance(one, Query)
    }
    assert len(taken) >= 11, [one for one in answers if not isinstance(one, Query)]
    rows = rows_of(np.random.default_rng(5), 600)
    source, city = rows.column("source").to_numpy(), rows.column("v0").to_pylist()
    long = ["a" * 10_000 if number == 1 else word for number, word in zip(source, city, strict=True)]
    local.feed(rows.set_column(rows.column_names.index("v0"), "v0", pa.array(long)))
    for text, number in taken.items():
        one = local.service.get_query(local.ann, number)
        if text == GOOD:
            assert one.state == "active"
            continue
        assert one.state == "failed", text
        assert not FOREIGN.search(one.why), one.why
        words = "needs more memory than the 40MB" if text == MEMORY else KINDS[text]
        assert words in one.why, (text, one.why)
    assert local.answers(taken[GOOD])
    local.service.close()
