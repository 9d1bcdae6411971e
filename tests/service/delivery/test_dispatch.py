"""Deliveries on their way: what fails is tried again and then stopped, and delays nobody else."""

import threading
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
from tests.service.delivery.receiver import LOCAL, allowing, desk_of, receiving, rows, settle
from tests.service.local import Local

from headgate.errors import ConfigError, CursorGone, SinkFailed
from headgate.service.delivery.dispatch import Dispatcher, _Way, wait_s
from headgate.service.delivery.webhook import verify


@pytest.fixture
def receiver():
    with receiving() as receiver:
        yield receiver


def world(folder, receiver, *, policy=LOCAL, **settings):
    local = Local(folder, servers=1, allowed=allowing(policy), **settings)
    (number,) = local.add("SELECT n FROM alpha")
    ((one,), secret) = desk_of(local).add(local.ann, [number], "webhook", {"url": receiver.url})
    return local, number, one, secret


def until(reached) -> None:
    """Wait for threads; the suite's own time limit ends it."""
    while not reached():
        time.sleep(0.005)


def numbers(receiver):
    return [row["values"]["n"] for body in receiver.bodies for row in body["results"]]


def test_a_webhook_gets_signed_results(tmp_path, receiver) -> None:
    local, number, one, secret = world(tmp_path, receiver)
    local.feed(rows(1, 2, 3))
    settle(Dispatcher(local.service), one.id)
    ((headers, body),) = receiver.requests
    verify(secret, body, headers["headgate-signature"])
    (told,) = receiver.bodies
    assert told["results"] == local.service.read(local.ann, number)[0]
    assert told["cursor"] == local.service.read(local.ann, number)[1]
    assert told["id"] == headers["headgate-id"]
    local.service.close()


def test_a_secret_is_rotated_with_grace(tmp_path, receiver) -> None:
    local, _, one, old = world(tmp_path, receiver)
    _, new = desk_of(local).rotate(local.ann, one.id, 3600)

    def fits(*secrets):
        local.feed(rows(1))
        settle(Dispatcher(local.service), one.id)
        headers, body = receiver.requests[-1]
        for secret in (old, new, newest):
            genuine = secret in secrets
            with nullcontext() if genuine else pytest.raises(ConfigError):
                verify(secret, body, headers["headgate-signature"])

    newest = "whsec_none"
    fits(old, new)
    local.restart()
    fits(old, new)
    local.service.deliveries.by_id[one.id] = replace(local.service.deliveries.by_id[one.id], old_ends=1.0)
    fits(new)
    _, newest = desk_of(local).rotate(local.ann, one.id, 0)
    fits(newest)
    local.restart()
    fits(newest)
    desk_of(local).rotate(local.ann, one.id, 3600)
    desk_of(local).remove(local.ann, one.id)
    assert local.service._registry.read("SELECT * FROM old_secrets") == []
    local.service.close()


def test_parcels_are_bounded_in_rows_and_bytes(tmp_path, receiver) -> None:
    local, _, one, _ = world(tmp_path, receiver, policy=replace(LOCAL, rows=8, bytes=500))
    local.feed(rows(*range(40)))
    settle(Dispatcher(local.service), one.id)
    assert numbers(receiver) == list(range(40))
    assert all(len(body) <= 500 for _, body in receiver.requests)
    assert len({told["id"] for told in receiver.bodies}) == len(receiver.requests) > 5
    local.service.close()


def test_what_fails_is_tried_again_with_the_same_parcel_and_then_stopped(tmp_path, receiver) -> None:
    now = [1000.0]
    local, _, one, _ = world(tmp_path, receiver, policy=replace(LOCAL, give_up_s=60))
    dispatcher = Dispatcher(local.service, clock=lambda: now[0])
    receiver.mood = 500
    local.feed(rows(1))

    def turn():
        way = dispatcher._ways.setdefault(one.id, _Way())
        dispatcher._turn(one.id, way)
        return way.again_at - now[0]

    waits = [turn() for _ in range(4)]
    assert waits == sorted(waits)
    assert 0.5 <= waits[0] <= 1
    assert 4 <= waits[3] <= 8
    shown = desk_of(local).get(local.ann, one.id)
    assert (shown["state"], shown["why"]) == ("active", "127.0.0.1 answered 500")
    local.feed(rows(2))  # a later batch does not change the parcel that is on its way
    now[0] += 61
    turn()
    shown = desk_of(local).get(local.ann, one.id)
    assert shown["state"] == "stopped"
    assert "answered 500" in shown["why"]
    assert dispatcher.step(one.id) is False
    receiver.mood = 200
    desk_of(local).resume(local.ann, one.id)
    settle(dispatcher, one.id)
    assert len({body for _, body in receiver.requests[:6]}) == 1
    assert [n for told in receiver.bodies[5:] for n in [row["values"]["n"] for row in told["results"]]] == [
        1,
        2,
    ]
    local.service.close()


@pytest.mark.parametrize(("mood", "why"), [(410, "does not want"), (200, "not public")])
def test_what_trying_again_does_not_change_stops_at_once(tmp_path, receiver, mood, why) -> None:
    local, _, one, _ = world(tmp_path, receiver)
    receiver.mood = mood
    dispatcher = Dispatcher(local.service)
    if mood == 200:  # the operator takes the network back
        strict = replace(local.service.deliveries.allowed, webhooks=replace(LOCAL, networks=()))
        local.service.deliveries.allowed = strict
        dispatcher = Dispatcher(local.service)
    local.feed(rows(1))
    with pytest.raises(Exception, match=why) as raised:
        dispatcher.step(one.id)
    dispatcher._failed(one.id, raised.value)
    shown = desk_of(local).get(local.ann, one.id)
    assert shown["state"] == "stopped"
    assert why in shown["why"]
    local.service.close()


def test_a_delivery_that_falls_behind_stops_and_says_what_it_lacks(tmp_path, receiver) -> None:
    local, _, one, _ = world(tmp_path, receiver, kept_batches=3)
    dispatcher = Dispatcher(local.service)
    local.feed(rows(0))
    settle(dispatcher, one.id)
    for batch in range(1, 8):
        local.feed(rows(batch))
    with pytest.raises(CursorGone) as gone:
        dispatcher.step(one.id)
    dispatcher._failed(one.id, gone.value)
    shown = desk_of(local).get(local.ann, one.id)
    assert shown["state"] == "stopped"
    assert "batch 1 are no longer kept: the oldest are those of batch 5" in shown["why"]
    desk_of(local).resume(local.ann, one.id)
    with pytest.raises(CursorGone):
        dispatcher.step(one.id)
    desk_of(local).resume(local.ann, one.id, skip=True)
    settle(dispatcher, one.id)
    assert numbers(receiver) == [0, 5, 6, 7]
    local.service.close()


def test_a_quiet_query_does_not_fall_behind(tmp_path, receiver) -> None:
    local, _, one, _ = world(tmp_path, receiver, kept_batches=3)
    dispatcher = Dispatcher(local.service)
    local.feed(rows(0))
    settle(dispatcher, one.id)
    for _ in range(8):
        local.feed(rows(9, source=1))
        settle(dispatcher, one.id)
    local.feed(rows(1))
    settle(dispatcher, one.id)
    assert numbers(receiver) == [0, 1]
    local.service.close()


def test_a_query_that_is_paused_or_removed_is_told(tmp_path, receiver) -> None:
    local, number, one, _ = world(tmp_path, receiver)
    dispatcher = Dispatcher(local.service)
    local.feed(rows(0))
    settle(dispatcher, one.id)
    local.service.pause(local.ann, number)
    local.feed(rows(1))
    settle(dispatcher, one.id)
    assert "is paused or has failed" in desk_of(local).get(local.ann, one.id)["why"]
    local.service.resume(local.ann, number)
    local.feed(rows(2))
    settle(dispatcher, one.id)
    assert numbers(receiver) == [0, 2]
    assert desk_of(local).get(local.ann, one.id)["why"] == ""
    local.service.remove(local.ann, number)
    with pytest.raises(LookupError, match="was removed"):
        dispatcher.step(one.id)
    local.service.close()


def test_a_pending_parcel_that_cannot_be_read_again_is_not_replaced_by_another(tmp_path, receiver) -> None:
    local, number, one, _ = world(tmp_path, receiver)
    dispatcher = Dispatcher(local.service)
    local.feed(rows(0, 1))
    receiver.mood = 500
    with pytest.raises(SinkFailed):
        dispatcher.step(one.id)
    local.service.pause(local.ann, number)
    local.service.resume(local.ann, number)
    receiver.mood = 200
    local.feed(rows(2))
    with pytest.raises(CursorGone, match="2 results up to cursor"):
        dispatcher.step(one.id)
    desk_of(local).resume(local.ann, one.id, skip=True)
    settle(dispatcher, one.id)
    assert numbers(receiver) == [0, 1, 2]  # the first two of the request that failed
    local.service.close()


def test_paused_means_that_nothing_is_sent(tmp_path, receiver) -> None:
    local, _, one, _ = world(tmp_path, receiver)
    dispatcher = Dispatcher(local.service)
    desk_of(local).pause(local.ann, one.id)
    local.feed(rows(0))
    settle(dispatcher, one.id)
    assert receiver.requests == []
    local.restart()
    desk_of(local).resume(local.ann, one.id)
    settle(Dispatcher(local.service), one.id)
    assert numbers(receiver) == [0]
    local.service.close()


def test_slow_and_dead_targets_delay_nobody_else_and_no_batch(tmp_path, receiver) -> None:
    hold, waiting = threading.Event(), threading.Semaphore(0)

    def stuck(handler) -> None:
        waiting.release()
        hold.wait()
        handler.send_response(200)
        handler.end_headers()

    with receiving() as slow:
        slow.mood = stuck
        local, number, _one, _ = world(tmp_path, receiver)
        bob = local.service.authenticate(local.service.add_tenant("bob"))
        local.service.grant(local.ann, "alpha", "bob")
        local.service.register(bob, [("SELECT n FROM alpha", "")])
        desk = desk_of(local)
        for _ in range(6):
            desk.add(bob, [number + 1], "webhook", {"url": slow.url})
        dispatcher = Dispatcher(local.service, threads=4, per_tenant=3)
        dispatcher.start()
        try:
            local.feed(rows(0))
            for _ in range(3):
                waiting.acquire()
            for batch in range(1, 4):  # all of bob's threads are stuck, and ann's results and batches go on
                local.feed(rows(batch))
                until(lambda batch=batch: numbers(receiver)[-1:] == [batch])
            assert len(slow.requests) == 3
            hold.set()
            until(lambda: all(d["batches_behind"] == 0 for d in desk.list(bob)))
        finally:
            hold.set()
            dispatcher.stop(30)
        local.service.close()
    assert numbers(receiver) == [0, 1, 2, 3]


def test_waits_grow_and_are_never_equal_for_all() -> None:
    assert [wait_s(n, 0.0) for n in (1, 2, 3, 99)] == [0.5, 1.0, 2.0, 150.0]
    assert wait_s(3, 1.0) == 4.0


def test_a_service_that_was_taken_over_sends_nothing(tmp_path, receiver) -> None:
    local, _, _one, _ = world(tmp_path, receiver)
    local.feed(rows(0))
    old = local.service
    dispatcher = Dispatcher(old)
    local.start()
    dispatcher.look()
    until(lambda: dispatcher.superseded)
    assert receiver.requests == []
    local.service.close()
    old.close()
