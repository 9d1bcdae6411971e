"""`headgate chaos --plant`: the list of bugs is sound, and bugs that were once mended by hand are found again."""

import ast
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from headgate.cli.commands import app
from headgate.errors import ConfigError
from headgate_lab.chaos.plant import LIMIT, Mutant, hunt, hunt_all, mutants, planted, source_of

LEAST = {
    "log": 20, "checkpoint": 15, "manifest": 12, "store": 10, "cache": 12, "sinks": 15, "backlog": 8,
    "reshape": 8, "batch": 10, "drive": 8, "service": 20, "sources": 1,
}  # fmt: skip
"""So many bugs at least are planted in each area."""
MENDED = [
    "two drivers both commit: an entry that is there is taken for one's own",
    "a split checkpoint: the offsets that are committed are those before the batch",
    "torn publishes: a batch is announced before its files are there",
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in (
            "a sweep before the check",
            "torn publishes: the folder of a batch is filled file by file",
            "torn publishes: on an object store, files that a record names are swept",
            "a tag is not struck",
        )
    ),
]
"""Defects that the product once had, or nearly had."""


def test_the_list_covers_every_area() -> None:
    found = Counter(mutant.area for mutant in mutants())
    assert {area: found[area] for area in found if found[area] < LEAST[area]} == {}
    assert found.keys() == LEAST.keys()
    assert found.total() >= 100
    names = Counter(mutant.name for mutant in mutants())
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("area", LEAST)
def test_every_bug_can_be_planted(area) -> None:
    for mutant in mutants():
        if mutant.area == area:
            assert ast.dump(ast.parse(planted(mutant))) != ast.dump(ast.parse(source_of(mutant.module)))


@pytest.mark.parametrize(
    ("old", "new"), [("no such text", "x"), ("self", "this"), ("FORMAT = 3\n", "FORMAT = 3\n")],
    ids=["a text that is not there", "a text that occurs often", "nothing changes"],
)  # fmt: skip
def test_a_bug_that_cannot_be_planted_is_named(old, new) -> None:
    with pytest.raises(ConfigError, match="names a text that occurs once"):
        hunt(Mutant("log", "a bug", "headgate.storage.commit_log", old, new))


def test_without_a_bug_nothing_is_caught() -> None:
    harmless = Mutant("log", "nothing", "headgate.storage.commit_log", "FORMAT = 3\n", "FORMAT = 2 + 1\n")
    found = hunt(harmless, 64)
    assert (found.caught, found.problem, found.histories) == (False, "", 64)


@pytest.mark.parametrize("name", MENDED)
def test_a_defect_that_was_mended_is_found_again(name) -> None:
    (mutant,) = mutants(name)
    found = hunt(mutant)
    assert found.caught
    assert found.problem


def test_the_command_prints_what_was_caught() -> None:
    only = ["--only", "a restart reads the source", "--limit", "2000", "--json"]
    result = CliRunner().invoke(app, ["chaos", "--plant", *only])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["planted"], found["caught"], found["missed"]) == (1, 1, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plant", "--only", "no such bug"], "no mutant has 'no such bug' in its name"),
        (["--plant", "--limit", "0"], "at least 1 is possible"),
        (["--only", "sweep"], "--plant"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, message) -> None:
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.full
def test_nearly_all_bugs_are_caught() -> None:
    plantation = hunt_all(mutants(), LIMIT, 2, lambda so_far: None)
    assert plantation.enough, plantation.missed
