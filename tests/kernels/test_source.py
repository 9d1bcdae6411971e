"""What cannot be compiled is refused with file, line and remedy."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.kernels.samples import KEY, NAMES, SCHEMA, STATE, helper, made

import headgate as hg
from headgate import errors


def a_float_in_a_whole_number(state, row) -> None:
    state.n += row.x


def a_local_that_may_be_unset(state, row):
    if row.v > 3:
        y = 1.0
    return y


def a_local_of_two_sorts(state, row):
    y = row.v
    if row.v > 3:
        y = "a"
    return y


def a_float_and_a_whole_number(state, row):
    y = row.v
    y = row.x
    return y


def a_field_that_is_not_there(state, row) -> None:
    state.count += 1


def a_column_that_is_not_there(state, row):
    return row.amount


def a_column_of_decimals(state, row):
    return row.d


def a_list_from_outside(state, row):
    return NAMES[row.v]


def an_unknown_name(state, row):
    return sqroot(row.x)  # type: ignore[name-defined]  # noqa: F821


def a_function_of_ones_own(state, row):
    return helper(row.x)


def a_sum_of_texts(state, row) -> None:
    state.s = row.s + "a"


def a_local_that_is_none(state, row):
    y = row.x
    if y is None:
        return 0.0


def two_values_for_one_column(state, row):
    return row.x, row.x


def the_wrong_name_of_a_column(state, row) -> None:
    hg.kernels.emit(zz=row.x)


def a_comprehension(state, row):
    return sum(v * v for v in state.last)


def a_try(state, row):
    try:
        return 1.0 / row.x
    except ZeroDivisionError:
        return 0.0


def an_f_string(state, row) -> None:
    state.s = f"{row.v}"


def a_power_that_is_not_written_out(state, row) -> None:
    state.n = row.v**row.v


def a_ring_that_is_changed_while_it_is_walked(state, row) -> None:
    for v in state.last:
        state.last.append(v)


def a_ring_that_is_assigned(state, row) -> None:
    state.last = row.x


def a_row_that_is_changed(state, row) -> None:
    row.x = 1.0


def a_timer_without_a_time(state, row) -> None:
    state.wake_at(row.ts)


def a_text_compared_with_a_number(state, row) -> float:
    return 1.0 if row.s == row.v else 0.0


def a_yield_and_a_return(state, row):
    yield row.x
    return row.x


def a_loop_over_a_number(state, row) -> None:
    for i in row.v:
        state.n += i


def a_number_of_65_bits(state, row) -> None:
    state.n = 2**3 + 9223372036854775808


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            a_float_in_a_whole_number,
            r"state.n is int, but the value is float; write int\(...\) or round\(...\)",
        ),
        (a_local_that_may_be_unset, "y may be unassigned here; assign it before the if or the loop"),
        (a_local_of_two_sorts, "y is int, but the value is str"),
        (a_float_and_a_whole_number, r"y is a float elsewhere and an integer here; write float\(...\)"),
        (a_field_that_is_not_there, "state has no field 'count'; it has n, x, on, t, s, last, m"),
        (
            a_column_that_is_not_there,
            "the stream has no column 'amount'; it has k, v, x",
        ),
        (a_column_of_decimals, r"column 'd' has type decimal128\(.*\), which a kernel cannot read; cast it"),
        (a_list_from_outside, "NAMES is a list; .* keep what changes in state"),
        (an_unknown_name, "sqroot is not defined; a kernel may call abs, bool"),
        (a_function_of_ones_own, "helper cannot be called in a compiled kernel"),
        (a_sum_of_texts, r"str \+ str is not supported; texts can be compared, stored and cut"),
        (a_local_that_is_none, "only a column of the row can be None; write `row.x is None`, before"),
        (
            two_values_for_one_column,
            "a row has the columns z, but this emits 2 values; emit a value for each column",
        ),
        (the_wrong_name_of_a_column, "a row has the columns z, but this emits zz"),
        (a_comprehension, "a comprehension cannot be compiled; write a for loop, or pass compiled=False"),
        (a_try, "try cannot be compiled; test for what may go wrong, or pass on_error='skip'"),
        (an_f_string, "an f-string cannot be compiled"),
        (a_power_that_is_not_written_out, r"write float\(x\) \*\* y"),
        (a_ring_that_is_changed_while_it_is_walked, "state.last is changed during iteration"),
        (a_ring_that_is_assigned, r"state.last is a ring\(float, 3\); change it with append"),
        (
            a_row_that_is_changed,
            "the row cannot be changed; assign to a local variable or to a field of state",
        ),
        (a_timer_without_a_time, "this kernel has no event time, or no on_timer"),
        (a_text_compared_with_a_number, "str cannot be compared with int; convert one of them"),
        (a_yield_and_a_return, "a kernel that yields cannot return a row; yield this row too"),
        (a_loop_over_a_number, r"a loop iterates over range\(...\), a ring or a mapping"),
        (a_number_of_65_bits, "9223372036854775808 does not fit 64 bits"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_cannot_be_compiled_is_refused_with_file_line_and_remedy(function, said) -> None:
    first = function.__code__.co_firstlineno
    with pytest.raises(errors.KernelRefused, match=said) as refused:
        made(function)
    file, line = str(refused.value).split(" ")[0].rsplit(":", 1)
    assert Path(file) == Path(__file__)
    assert first < int(line.rstrip(":")) < first + 9
    assert f"kernel {function.__name__}: " in str(refused.value)


def columns_of_unlike_sorts(state, row):
    if row.s == "a" and row.ts > state.t + timedelta(minutes=1):
        state.t = row.ts
        state.s = row.s
    return row.x * row.v


@pytest.mark.parametrize(
    ("function", "at_once"),
    [
        (a_function_of_ones_own, True),
        (an_unknown_name, True),
        (a_field_that_is_not_there, True),
        (a_ring_that_is_assigned, True),
        (a_number_of_65_bits, True),
        (two_values_for_one_column, True),
        (a_try, True),
        (a_float_in_a_whole_number, False),
        (a_text_compared_with_a_number, False),
        (a_column_that_is_not_there, False),
        (a_column_of_decimals, False),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_no_columns_could_mend_is_refused_when_the_kernel_is_made(function, at_once) -> None:
    make = hg.kernel(state=STATE, output={"z": float})
    if at_once:
        with pytest.raises(errors.KernelRefused, match=f"kernel {function.__name__}: "):
            make(function)
    else:
        kernel = make(function)
        with pytest.raises(errors.KernelRefused):
            kernel.bind(KEY, SCHEMA)


def test_a_kernel_whose_columns_differ_in_sort_is_not_refused() -> None:
    assert made(columns_of_unlike_sorts).inputs == ("v", "x", "s", "ts")
