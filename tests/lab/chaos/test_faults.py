"""Where faults strike, and what the histories of many seeds cover."""

from itertools import groupby

import pytest

from headgate_lab.chaos.checks import Raw
from headgate_lab.chaos.faults import KINDS, Fault
from headgate_lab.chaos.history import LIMITS, OPERATORS, SHARED, History, Settings, Step, history
from headgate_lab.chaos.play import Outcome, Player, play

PAST = (Step((0, 1)), Step((1, 2)))


def told(fault: Fault, seed: int = 1, **settings) -> Outcome:
    """A history with one fault in its only step."""
    outcome = play(History(seed, Settings(**settings), PAST, (Step((0, 2), faults=(fault,)),)), tell=True)
    assert outcome.problems == []
    return outcome


@pytest.mark.parametrize("profile", ["objects", "disk"])
@pytest.mark.parametrize("place", ["log", "state", "journal", "batch=", "_batches", "list", "read", "remove"])
def test_a_fault_strikes_at_its_place(profile, place) -> None:
    outcome = told(Fault("error", any=True, place=place), profile=profile)
    (struck,) = [entry for entry in outcome.told if entry[4] == "error"]
    assert struck[2] == place or f"/{place}" in struck[3]
    assert outcome.struck == {"error": 1}


def test_a_driver_that_naps_takes_turns_with_the_next_one() -> None:
    nap = Fault("naps", any=True, place="log", later=8, pick=3)
    turns = [list(groupby(_drivers(told(nap, seed=seed)))) for seed in range(6)]
    assert max(map(len, turns)) > 4


def _drivers(outcome: Outcome) -> list[str]:
    return [entry[1] for entry in outcome.told if entry[1].startswith("driver")]


@pytest.mark.parametrize("place", ["state", "log", "headgate.json"])
def test_bit_rot_damages_a_file_of_its_place(place) -> None:
    outcome = told(Fault("bit rot", place=place, pick=5))
    (struck,) = [entry[4] for entry in outcome.told if entry[4].startswith("bit rot")]
    assert f"/{place}" in struck


def test_a_few_pasts_have_every_operator_limit_and_store() -> None:
    pasts = [history(SHARED * number).settings for number in range(20)]
    assert {settings.operator for settings in pasts} == set(OPERATORS)
    assert {settings.profile for settings in pasts} == {"objects", "disk"}
    assert {settings.way for settings in pasts} >= {"stage", "direct"}
    assert {settings.durable for settings in pasts} == {True, False}
    for limit in set(LIMITS) - {"none"}:
        assert any(getattr(settings, limit) for settings in pasts), limit


@pytest.mark.parametrize("way", ["stage", "direct"])
@pytest.mark.parametrize("operator", dict.fromkeys(OPERATORS))
def test_every_operator_survives_a_kill(operator, way) -> None:
    told(Fault("kill", at=2, place="log"), operator=operator, way=way)


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {fault.kind for seed in range(1000) for step in history(seed).steps for fault in step.faults}
    assert drawn == KINDS.keys()


def checked() -> tuple[Raw, dict[str, bytes]]:
    """The files of a stage after three batches, and their checks."""
    player = Player(History(0, Settings(), PAST, ()))
    player.past()
    return player.raw, dict(player.world.contents())


def test_a_journal_with_two_lines_of_a_batch_is_found() -> None:
    raw, files = checked()
    assert list(raw.journal(files)) == []
    (name,) = [name for name in files if name.endswith("-000000000001-000000000001.jsonl")]
    files[f"{name}.jsonl"] = files[name].replace(b'"wall_ms":', b'"wall_ms":1')
    assert ["has 2 lines of batch 1" in problem for problem in raw.journal(files)] == [True]
    del files[name], files[f"{name}.jsonl"]
    assert ["has no lines of batch 1" in problem for problem in raw.journal(files)] == [True]


def test_a_bin_that_the_table_does_not_have_is_found(monkeypatch) -> None:
    raw, files = checked()
    assert list(raw.problems(files)) == []
    newest = raw.newest(files)
    assert newest is not None
    newest["state"]["sizes"][0][0] = 99
    monkeypatch.setattr(raw, "newest", lambda files: newest)
    assert ["sizes of bin 99" in problem for problem in raw.problems(files)] == [True]
