"""Which functions of Spark SQL may not stand in a condition or selection of a direct stream.

A batch that failed is done again, and must give the same rows then. And a step sees one batch at a
time, in parts: an aggregate or a window function would be computed over these parts.

Only the text is read here. `tests/spark/direct/test_refused.py` compares the names with Spark's own list.
"""

from __future__ import annotations

from headgate.errors import ConfigError
from headgate.streams.sql_tokens import NotColumnar, Token, tokens_of

CLOCK = frozenset(
    ["curdate", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "now"]
)
"""Functions that read the clock. Some may be written without parentheses."""
_BARE = frozenset(("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"))
_CLOCK_WITHOUT_ARGUMENTS = frozenset(("unix_timestamp", "to_unix_timestamp"))
RANDOM = frozenset(["rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"])
CLOCK_TEXTS = frozenset(("now", "today", "tomorrow", "yesterday"))
"""Texts that Spark reads as a time by the clock, where it expects a date or a timestamp."""
_TIMES = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"))
_TO_TIMES = _TIMES | {"TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_NTZ", "TRY_TO_TIMESTAMP"}
PLACE = frozenset(
    [
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
        "monotonically_increasing_id",
        "spark_partition_id",
    ]
)
"""Functions that depend on how rows are cut into files and tasks."""
CALLS = frozenset(["java_method", "reflect", "try_reflect"])
_AGGREGATES = """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union
    corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
    grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min
    min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std
    stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg
    theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance
"""
WINDOWS = frozenset(
    [
        "counter_diff",
        "cume_dist",
        "dense_rank",
        "lag",
        "lead",
        "nth_value",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
    ]
)
AGGREGATES = frozenset(_AGGREGATES.split())
_AGAIN = "a batch that is done again must give the same rows"
_KEYED = "use key_by(...) with an operator, such as .key_by('user').aggregate(total=agg.sum('amount'))"
_SCALARS = frozenset(("ANY", "SOME", "ALL"))


def check_repeatable(text: str) -> None:
    """Refuse a text whose result may differ when it is computed again, or depends on other rows.

    >>> check_repeatable("amount > rand()")
    Traceback (most recent call last):
    ...
    headgate.errors.ConfigError: `amount > rand()`: rand() is random, and a batch that is done again must give the same rows. \
Compute it from the row, such as crc32(cast(id AS string)) % 100 < 5
    """
    try:
        tokens = tokens_of(text)
    except (NotColumnar, ConfigError):
        return  # whoever reads the text says what is wrong with it
    for at, token in enumerate(tokens):
        why = ""
        if token.kind == "word" and not _is_field(tokens, at):
            why = _refusal(tokens, at)
        elif token.text[1:-1].strip().lower() in CLOCK_TEXTS and _is_time(tokens, at):
            why = f"{token.text} reads the clock, and {_AGAIN}. Use a time that is a column of the rows"
        if why:
            raise ConfigError(f"`{text}`: {why}")


def _refusal(tokens: list[Token], at: int) -> str:
    name = tokens[at].text.lower()
    called = _sign(tokens, at + 1) == "("
    if not called and not (name in _BARE and _sign(tokens, at - 1) != "AS"):
        window = name == "over" and _sign(tokens, at - 1) == ")"
        return _window("OVER") if window and at + 1 < len(tokens) else ""
    if name == "over" and _sign(tokens, at - 1) == ")":
        return _window("OVER (...)")
    if name in CLOCK or (name in _CLOCK_WITHOUT_ARGUMENTS and _sign(tokens, at + 2) == ")"):
        return f"{name} reads the clock, and {_AGAIN}. Use a time that is a column of the rows"
    if name in RANDOM:
        return f"{name}() is random, and {_AGAIN}. Compute it from the row, such as crc32(cast(id AS string)) % 100 < 5"
    if name in PLACE:
        return f"{name}() depends on how rows are cut into tasks, and {_AGAIN}. Use a column of the rows"
    if name in CALLS:
        return f"{name}() calls code that may return anything, and {_AGAIN}. Use map_batches(...) or transform(...)"
    if name in WINDOWS:
        return _window(f"{name}()")
    compared = name.upper() in _SCALARS and _sign(tokens, at - 1) in ("LIKE", "ILIKE", "RLIKE")
    if name in AGGREGATES and not compared:
        return f"{name}() is an aggregate, and a step sees only a part of the rows: {_KEYED}"
    return ""


def _window(what: str) -> str:
    return (
        f"{what} is a window function, and a step sees only a part of the rows: {_KEYED}, or with "
        ".top(...), .history(...), .dedup()"
    )


def _sign(tokens: list[Token], at: int) -> str:
    return tokens[at].upper if 0 <= at < len(tokens) else ""


def _is_time(tokens: list[Token], at: int) -> bool:
    """Whether a text is written as a date or timestamp: `DATE 'now'`, `to_date('now')`, `cast('now' AS date)`.
    Beside a column it may be a text like any other.
    """
    before, after = _sign(tokens, at - 1), _sign(tokens, at + 1)
    cast = _sign(tokens, at - 2) in ("CAST", "TRY_CAST") and after == "AS" and _sign(tokens, at + 2) in _TIMES
    called = before == "(" and (_sign(tokens, at - 2) in _TO_TIMES or cast)
    return before in _TIMES or called or (after == "::" and _sign(tokens, at + 2) in _TIMES)


def _is_field(tokens: list[Token], at: int) -> bool:
    """Whether a word is a part of a longer name, such as `a.first`."""
    return _sign(tokens, at - 1) == "."
