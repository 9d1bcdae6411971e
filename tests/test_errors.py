"""The exception tree: complete, as drawn, and able to cross a process border."""

import inspect
import pickle
import re

import pytest

from headgate import errors

ALL = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, Exception) and value.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_ours_and_pickles_with_its_message(kind) -> None:
    assert issubclass(kind, errors.HeadgateError)
    error = pickle.loads(pickle.dumps(kind("what, where, remedy")))
    assert type(error) is kind
    assert str(error) == "what, where, remedy"


def test_the_drawing_names_every_error_and_no_other() -> None:
    drawing = errors.__doc__.split("Law:")[0]
    drawn = set(re.findall(r"── (\w+)", drawing)) | {drawing.split("\n\n")[1].split()[0]}
    assert drawn == {kind.__name__ for kind in ALL}


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (errors.ConfigError, (ValueError,)),
        (errors.MissingColumn, (errors.ConfigError,)),
        (errors.UnsupportedType, (errors.ConfigError,)),
        (errors.CorruptState, (errors.CheckpointError,)),
        (errors.NewerFormat, (errors.CheckpointError,)),
        (errors.Superseded, (errors.CheckpointError,)),
        (errors.StorageFull, (errors.CheckpointError,)),
        (errors.ArithmeticOverflow, (ArithmeticError,)),
    ],
)
def test_what_a_caller_may_catch(kind, parents) -> None:
    assert issubclass(kind, parents)


def test_a_mismatch_is_not_a_damaged_checkpoint() -> None:
    assert not issubclass(errors.CheckpointMismatch, errors.CheckpointError)
