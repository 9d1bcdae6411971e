"""Deliveries on their way: threads take turns with those that have something to send, or are to be tried again.

A turn sends one parcel. A tenant has few turns at a time, and deliveries that fail have at most half of the threads, so
a target that is slow or dead delays nobody else. A batch never waits for a delivery.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate import logs
from headgate.errors import (
    CheckpointMismatch,
    CursorGone,
    NotFound,
    QuotaExceeded,
    Superseded,
    UnsupportedType,
)
from headgate.service.delivery.addresses import Forbidden
from headgate.service.delivery.orders import ACTIVE, STOPPED, Delivery
from headgate.service.delivery.parcel import Parcel
from headgate.service.delivery.senders import Sender, sender_of
from headgate.service.delivery.webhook import Gone, Post
from headgate.service.results import Cursor
from headgate.service.service import Service
from headgate.service.targets_config import WEBHOOK

log = logs.logger("headgate.service")
THREADS, PER_TENANT = 16, 4
POLL_S = 0.1
"""How often somebody looks for a new batch."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 300.0
"""Before a delivery that has failed is tried again: the wait doubles with every failure, up to the longest."""
OPEN_SENDERS = 256
"""How many senders are kept open between parcels."""
FOLDER = "deliveries"
FOR_GOOD = (CheckpointMismatch, UnsupportedType, Forbidden, Gone, CursorGone, NotFound, QuotaExceeded)
"""What trying again does not change."""


def wait_s(failures: int, draw: float) -> float:
    """How long to wait after so many failures in a row: a random part of a time that doubles.

    >>> [wait_s(failures, 1.0) for failures in (1, 2, 5, 50)]
    [1.0, 2.0, 16.0, 300.0]
    """
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 30))
    return longest * (0.5 + draw / 2)


@dataclass
class _Way:
    """What is known in memory of a delivery on its way."""

    seen: int = -2
    """The last batch when it had nothing more to send."""
    busy: bool = False
    failures: int = 0
    again_at: float = 0.0


class Dispatcher:
    """Sends what deliveries have to send, until it is stopped."""

    def __init__(
        self,
        service: Service,
        *,
        post: Post | None = None,
        threads: int = THREADS,
        per_tenant: int = PER_TENANT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service, self._orders, self._clock = service, service.deliveries, clock
        self._post = post or Post(self._orders.allowed.webhooks)
        self._store = service.batch_log.store.child(FOLDER)
        self._threads, self._per_tenant = threads, per_tenant
        self._ways: dict[int, _Way] = {}
        self._senders: OrderedDict[int, Sender] = OrderedDict()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._turns = set[threading.Thread]()
        self._thread = threading.Thread(target=self._run, name="headgate-deliveries", daemon=True)
        self.superseded = False

    def start(self) -> None:
        """Start the thread that looks for what is to be sent."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop, and wait a little for what is under way. The rest is pending: the next process sends it again, once where
        the target remembers.
        """
        self._stopping.set()
        self._orders.changed.set()
        if self._thread.is_alive():
            self._thread.join()
        until = time.monotonic() + timeout_s
        for turn in list(self._turns):
            turn.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.superseded:
            try:
                self.look()
            except Exception:
                log.exception("deliveries could not be looked through; trying again")
            self._orders.changed.wait(POLL_S)
            self._orders.changed.clear()

    def look(self) -> None:
        """Give a thread to each delivery that is due, as far as there are threads for it."""
        last, now = self._service.last_batch, self._clock()
        active = self._orders.active()
        with self._lock:
            for number in self._ways.keys() - {one.id for one in active}:
                if not self._ways[
                    number
                ].busy:  # gone, paused or stopped: when it comes back it starts afresh
                    del self._ways[number]
                    self._senders.pop(number, None)
            ways = [(one, self._ways.setdefault(one.id, _Way())) for one in active]
            busy = Counter(one.tenant for one, way in ways if way.busy)
            failing = sum(way.busy and way.failures > 0 for _, way in ways)
            due = [
                (way.again_at, one, way)
                for one, way in ways
                if not way.busy and way.again_at <= now and (way.seen != last or way.failures)
            ]
            for _, one, way in sorted(due, key=lambda found: found[0]):
                full = way.failures and failing >= max(1, self._threads // 2)
                if busy.total() >= self._threads or busy[one.tenant] >= self._per_tenant or full:
                    continue
                busy[one.tenant] += 1
                failing += way.failures > 0
                way.busy = True
                turn = threading.Thread(
                    target=self._turn, args=(one.id, way), name=f"headgate-delivery-{one.id}", daemon=True
                )
                self._turns.add(turn)
                turn.start()

    def _turn(self, number: int, way: _Way) -> None:
        """One parcel of a delivery."""
        now = self._clock()
        try:
            more = self.step(number)
        except Superseded:
            self.superseded = True
            more = False
        except Exception as error:
            more = False
            way.failures += 1
            way.again_at = now + wait_s(way.failures, random.random())
            with self._lock:
                self._senders.pop(number, None)
            self._failed(number, error)
            now_is = self._orders.by_id.get(number)
            if now_is is None or now_is.state != ACTIVE:  # if its owner resumes it, it is tried at once
                way.failures, way.again_at = 0, now
        else:
            way.failures = 0
            way.again_at = now  # after those that have waited longer
        if more:
            way.seen = -2
        self._turns.discard(threading.current_thread())
        way.busy = False
        self._orders.changed.set()

    def step(self, number: int) -> bool:
        """Send the next parcel of a delivery; whether there may be more. Raise what went wrong."""
        one = self._orders.by_id.get(number)
        if one is None or one.state != ACTIVE:
            return False
        last = self._service.last_batch
        found = self._view(one)
        if one.pending:
            parcel: Parcel | None = self._pending(one, found)
        elif found is None:
            return self._seen(number, last)
        else:
            parcel = self._next(one, found)
        if parcel is None:
            return self._seen(number, last)
        sender = self._sender(one)
        sender.prepare(parcel)
        if not one.pending:
            pending = json.dumps([parcel.following, parcel.count])
            written = self._orders.update(one, pending=pending)
            if written is None:
                return True
            one = written
        sender.send(parcel)
        self._orders.update(
            one, cursor=parcel.following, pending="", number=one.number + 1, why="", failing_since=0.0
        )
        return True

    def _seen(self, number: int, last: int) -> bool:
        with self._lock:
            if number in self._ways:
                self._ways[number].seen = last
        return False

    def _view(self, one: Delivery) -> Any:
        """What the delivery may read; None while its query does not run."""
        if not self._orders.may(one.tenant, one.target):
            raise QuotaExceeded(
                f"you may no longer deliver to {one.target!r}: ask the operator of the service"
            )
        try:
            found = self._service.view_of(one.tenant, one.query)
        except NotFound:
            raise NotFound(f"query {one.query} was removed") from None
        if found is None:
            why = (
                f"query {one.query} is paused or has failed: what was not sent before cannot be read any more"
            )
            if one.why != why:
                self._orders.update(one, why=why)
        return found

    def _next(self, one: Delivery, found: Any) -> Parcel | None:
        """The next parcel after the cursor, if there are results."""
        view, template = found
        cursor = Cursor.parse(one.cursor) if one.cursor else None
        sender = self._sender(one)
        most = sender.rows
        while True:
            pages, following = self._service.results.pages(view, template, cursor, most)
            parcel = Parcel(one, one.number, str(following), template, pages)
            if parcel.count <= 1 or sender.fits(parcel):
                break
            most = parcel.count // 2
        if parcel.count:
            return parcel
        far = following.batch - (cursor.batch if cursor else view.since)
        if (
            one.why or far > self._service.settings.kept_batches // 4
        ):  # or it would seem to have fallen behind
            self._orders.update(one, cursor=str(following), why="")
        return None

    def _pending(self, one: Delivery, found: Any) -> Parcel:
        """The parcel that was pending when the process ended, or when the target failed: the same results again."""
        following, count = json.loads(one.pending)
        if not count:
            return Parcel(one, one.number, following, None, (), again=True)
        parcel = None
        if found is not None:
            view, template = found
            cursor = Cursor.parse(one.cursor) if one.cursor else None
            pages, _ = self._service.results.pages(view, template, cursor, count, Cursor.parse(following))
            parcel = Parcel(one, one.number, following, template, pages, again=True)
        if parcel is None or parcel.count != count:
            raise CursorGone(
                f"{count} results up to cursor {following} were being sent, and can no longer be read, because query "
                f"{one.query} was paused or has failed since: some of them may not have arrived"
            )
        return parcel

    def _sender(self, one: Delivery) -> Sender:
        with self._lock:
            if one.id not in self._senders:
                self._senders[one.id] = sender_of(one, self._orders.allowed, self._store, self._post)
            self._senders.move_to_end(one.id)
            while len(self._senders) > OPEN_SENDERS:
                self._senders.popitem(last=False)
            return self._senders[one.id]

    def _failed(self, number: int, error: Exception) -> None:
        """Record why a delivery failed; stop it if that is for good, or has lasted too long."""
        one = self._orders.by_id.get(number)
        if one is None:
            return
        now = self._clock()
        since = one.failing_since or now
        mine = one.target == WEBHOOK or isinstance(error, FOR_GOOD)
        told = (
            str(error)
            if mine and str(error)
            else f"target {one.target!r} could not be reached ({type(error).__name__})"
        )
        log.warning("delivery %d of tenant %r to %r failed: %s", one.id, one.tenant, one.target, error)
        try:
            if isinstance(error, CursorGone):
                told = f"{told}. To go on with what is kept, resume it with skip; what lies between is then not sent"
            if isinstance(error, FOR_GOOD):
                self._orders.update(one, state=STOPPED, why=told, failing_since=since)
            elif now - since >= self._orders.allowed.webhooks.give_up_s:
                why = f"stopped after {now - since:.0f} s of failures, the last of which: {told}. Resume it when the target is well"
                self._orders.update(one, state=STOPPED, why=why, failing_since=since)
            elif one.why != told or not one.failing_since:
                self._orders.update(one, why=told, failing_since=since)
        except Superseded:
            self.superseded = True
        except Exception:
            log.exception("why delivery %d failed could not be recorded", one.id)
