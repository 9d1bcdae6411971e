"""The simulator of faults plays the query service: histories hold, each is fixed by its seed, and mistakes are found."""

from itertools import islice

import pytest

from headgate_lab.chaos.command import told
from headgate_lab.chaos.faults import Fault
from headgate_lab.chaos.history import History, Settings, Step, history, seeds
from headgate_lab.chaos.plant import hunt, mutants
from headgate_lab.chaos.play import play
from headgate_lab.chaos.service_queries import Asked, Query, Rows, in_slots
from headgate_lab.chaos.story import story

HISTORIES = 128
SERVICE = Settings(way="service", operator="windows", sink="memory")


def test_every_history_of_the_service_holds() -> None:
    failed, struck = [], 0
    for seed in islice(seeds("service"), HISTORIES):
        outcome = play(history(seed))
        struck += outcome.struck.total()
        failed += [(seed, problem) for problem in outcome.problems]
    assert failed == []
    assert struck > HISTORIES / 2


def test_one_history_in_sixteen_is_of_the_service() -> None:
    ways = [history(seed).settings.way for seed in range(0, 512 * 32, 32)]
    assert ways.count("service") == 512 / 16


@pytest.mark.parametrize("operator", ["rows", "windows", "last", "join"])
def test_queries_servers_and_drivers_come_and_go(operator) -> None:
    acts = ["register", "lose", "add", "pause", "register", "lose", "resume", "remove", "register", "lose"]
    steps = tuple(
        Step((0, 1, 2, 0), route=(act, number, number), restart="new" if number % 3 == 0 else "")
        for number, act in enumerate(acts)
    )
    settings = Settings(way="service", operator=operator, sink="memory", channels=3, kept=3)
    outcome = play(History(1, settings, past=steps[:4], steps=steps[4:]))
    assert outcome.problems == []


def test_the_same_seed_gives_the_same_story() -> None:
    seed = next(islice(seeds("service"), 40, None))
    first, second = play(history(seed), tell=True), play(history(seed), tell=True)
    assert first.told == second.told != []


def test_the_story_of_a_service_is_told() -> None:
    step = Step((0, 2), route=("register", 1, 1), faults=(Fault("kill", at=3),))
    outcome = play(History(45, SERVICE, past=(Step((0, 1)),), steps=(step,)), tell=True)
    text = "\n".join(story(outcome))
    assert text.startswith("History 45: a service with windows on an object store, 2 servers")
    for part in ("is registered: SELECT k, sum(v)", "<== kill", "All laws held"):
        assert part in text


def test_what_a_query_must_see_follows_from_the_rows() -> None:
    second = 1_000_000
    batches = [[(0, 1, 0), (1, 1, second)], [(0, 2, 3 * second), (2, 1, 5 * second)]]
    rows = Rows(batches)
    assert in_slots(batches[0]).column("source").to_pylist() == [0, 1]
    assert rows.expected(Query(0, Asked("rows", 2), 0, 0), 1) == [(3, 0, 2)]
    assert rows.expected(Query(0, Asked("windows", 9), 0, 0), 1) == [(0, 0, 3, 2)]
    assert rows.expected(Query(0, Asked("windows", 9), 1, 1), 1) == []
    assert rows.expected(Query(0, Asked("last", 9), 0, 0), 1) == [(0, 0, 1, 1), (3, 0, 3, 2)]
    assert rows.expected(Query(0, Asked("join", 9), 0, 0), 1) == [(3, 0, 2, 1, 1)]


@pytest.mark.parametrize(
    "name",
    [
        "what drivers before left behind is never swept",
        "state of a lost server is not taken over",
        pytest.param(
            "a service whose commit was not answered takes itself for superseded", marks=pytest.mark.full
        ),
        pytest.param("a service reads the registry before it claims its state", marks=pytest.mark.full),
    ],
)
def test_a_mistake_in_the_service_is_found(name) -> None:
    (mutant,) = mutants(name)
    found = hunt(mutant)
    assert found.caught
    assert found.problem


@pytest.mark.full
def test_a_mistake_is_made_small(monkeypatch) -> None:
    monkeypatch.setattr("headgate.service.batch_log.BatchLog.settle", lambda self: None)
    seed = next(seed for seed in seeds("service") if play(history(seed)).failed)
    outcome = told(seed)
    assert outcome.failed
    assert sum(len(step.faults) for step in outcome.history.steps) <= 2
