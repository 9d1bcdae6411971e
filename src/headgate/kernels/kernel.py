"""`@hg.kernel`: a plain Python function as an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.kernels.bound_kernel import BoundKernel, Options
from headgate.kernels.fields import output_fields, row_sort, state_fields
from headgate.kernels.function_source import read_source
from headgate.kernels.module import Shape
from headgate.kernels.syntax import check
from headgate.operators.base import Operator, column_type
from headgate.operators.event_time import EventTime, parse_duration
from headgate.state.keys import KeySpec

OnError = Literal["fail", "skip"]
MAX_STEPS = 1_000_000


class KernelOptions(TypedDict):
    """The arguments of `hg.kernel`, as the user gave them."""

    state: Mapping[str, Any]
    output: Mapping[str, Any]
    keep: Sequence[str]
    on: str | None
    delay: str | None
    ahead: str
    ttl: str | None
    on_error: OnError
    max_steps: int
    compiled: bool


class Kernel(Operator):
    """A function of (state, row), called once per row, in the order of arrival within each key.

    Made by `hg.kernel`. `on_timer` adds the function for timers.
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions) -> None:
        self.function, self.options = function, options
        self.name = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__ or f"The kernel {self.name}."
        self.state = state_fields(options["state"])
        self.output = output_fields(options["output"])
        self.timer: Callable[..., Any] | None = None
        source = read_source(function, "row")
        if options["on_error"] not in ("fail", "skip"):
            raise ConfigError(f"on_error={options['on_error']!r}: it is 'fail' or 'skip'")
        steps: object = options["max_steps"]
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ConfigError(f"max_steps={steps!r} must be a whole number of at least 1")
        if options["on"] is None and (options["ttl"] is not None or options["delay"] is not None):
            raise ConfigError(
                f"kernel {self.name} has a ttl or delay but no event time; name its column, as in on='ts'"
            )
        self._ttl = None if options["ttl"] is None else parse_duration(options["ttl"], "ttl", least=1)
        if options["compiled"]:
            check(source, self._shape())

    def __repr__(self) -> str:
        return f"kernel({self.name})"

    def _shape(self) -> Shape:
        """What is known before the stream's columns and the function for timers are known."""
        time = self.options["on"]
        return Shape(
            self.state, {}, self.output, self.options["max_steps"], time, self._ttl, timed=time is not None
        )

    def on_timer(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Use as a decorator: the function of (state, now) that is called when a key's timer fires.

        `now` is the time that the timer was set to. The function may emit, change the state, forget the
        key and set another timer.
        """
        if self.options["on"] is None:
            raise ConfigError(
                f"kernel {self.name} has no event time for timers; name its column, as in on='ts'"
            )
        source = read_source(function, "now")
        if self.options["compiled"]:
            check(source, self._shape(), timed=True)
        self.timer = function
        return function

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundKernel:
        """Check the function against the stream's columns, and compile it."""
        options = self.options
        names = [*key.names, *options["keep"], *self.output]
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise ConfigError(
                f"kernel {self.name} would emit column {twice[0]!r} twice; give its output another name"
            )
        for name in options["keep"]:
            column_type(schema, name, repr(self))
        event_time = None
        if options["on"] is not None:
            column_type(schema, options["on"], repr(self))
            delay = parse_duration(options["delay"] or "0 s", "delay")
            event_time = EventTime(
                options["on"], (delay,), parse_duration(options["ahead"], "ahead", least=1)
            )
            event_time.check(schema, repr(self))
        row = {f.name: sort for f in schema if (sort := row_sort(f.type)) is not None}
        unread = {f.name: str(f.type) for f in schema if f.name not in row}
        return BoundKernel(
            Options(
                name=self.name,
                keep=tuple(options["keep"]),
                skip=options["on_error"] == "skip",
                compiled=options["compiled"],
            ),
            replace(self._shape(), row=row, unread=unread, timed=self.timer is not None),
            key,
            schema,
            event_time,
            read_source(self.function, "row"),
            None if self.timer is None else read_source(self.timer, "now"),
        )


def kernel(
    *,
    state: Mapping[str, Any],
    output: Mapping[str, Any],
    keep: Sequence[str] = (),
    on: str | None = None,
    delay: str | None = None,
    ahead: str = "1 day",
    ttl: str | None = None,
    on_error: OnError = "fail",
    max_steps: int = MAX_STEPS,
    compiled: bool = True,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make an operator of a plain Python function of (state, row).

    `state` declares the fields that are kept for each key. `output` declares the columns that the
    function emits; the key columns and the columns of the row named in `keep` are emitted before them.
    What the function returns or yields is emitted, except None; `hg.kernels.emit` emits a row at any place.

    `on` names the column with a row's event time (`delay` and `ahead` are those of windows). With it,
    late rows are put aside, `state.wake_at(t)` sets a timer that calls the function given to `on_timer`,
    and `ttl` ("1 hour") forgets a key that has had no row for that long.

    The function is compiled. If that is impossible it is refused, with file, line and remedy;
    `compiled=False` calls it as plain Python. If a row fails (division by zero, overflow, a null that
    was not tested for, more than `max_steps` loop iterations) the stream stops with an error that
    names the row's key and the line. With `on_error="skip"` such a row changes nothing, and is put
    aside with the reason.

    >>> @kernel(state={"n": int}, output={"nth": int})
    ... def nth(state, row):
    ...     state.n += 1
    ...     return state.n
    >>> nth
    kernel(nth)
    """
    options = KernelOptions(
        state=state,
        output=output,
        keep=keep,
        on=on,
        delay=delay,
        ahead=ahead,
        ttl=ttl,
        on_error=on_error,
        max_steps=max_steps,
        compiled=compiled,
    )

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, options)

    return decorate
