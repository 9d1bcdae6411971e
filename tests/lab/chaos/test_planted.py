"""The simulator finds bugs: each of these was put into the product on purpose, and is found and made small."""

import pytest

from headgate.stage.batch import Batch
from headgate.stage.stage import KeyedStage
from headgate.storage.bin_cache import BinCache
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.commit_log import CommitLog
from headgate.storage.parquet_folder import ParquetFolder
from headgate.storage.store import Store
from headgate_lab.chaos.command import told
from headgate_lab.chaos.history import history
from headgate_lab.chaos.report import run
from headgate_lab.chaos.story import story


def removes_claims(monkeypatch) -> None:
    take = CommitLog.take

    def taking(self):
        last = take(self)
        self._old = [self.claim.number]
        return last

    monkeypatch.setattr(CommitLog, "take", taking)


def sweeps_before_the_commit(monkeypatch) -> None:
    commit = Checkpoint.commit

    def sweeping(self, manifest) -> None:
        self._sweep(manifest)
        commit(self, manifest)

    monkeypatch.setattr(Checkpoint, "commit", sweeping)


def a_copy_that_is_there_counts_as_complete(monkeypatch) -> None:
    show = ParquetFolder.show

    def showing(self, staged, files, batch, *, again) -> None:
        if not any(self.store.exists(f"{self._folder(batch)}/{f.name.rpartition('/')[2]}") for f in files):
            show(self, staged, files, batch, again=again)

    monkeypatch.setattr(ParquetFolder, "show", showing)


def sweeps_files_of_later_drivers(monkeypatch) -> None:
    monkeypatch.setattr(CommitLog, "is_older", lambda self, name: True)


def does_not_publish_again(monkeypatch) -> None:
    monkeypatch.setattr("headgate.stage.stage.publish", lambda *args, **options: None)


def trusts_any_cached_table(monkeypatch) -> None:
    monkeypatch.setattr("headgate.storage.bin_cache.tag_of", lambda name: (0, 0))


def publishes_before_the_commit(monkeypatch) -> None:
    decide = Batch.decide

    def deciding(self) -> None:
        decide(self)
        commit, self.checkpoint.commit = self.checkpoint.commit, lambda manifest: None
        Batch.commit(self)
        Batch.publish(self)
        self.checkpoint.commit = commit

    monkeypatch.setattr(Batch, "decide", deciding)


def takes_the_batch_again(monkeypatch) -> None:
    from headgate.storage.manifest import Delivery

    monkeypatch.setattr(Delivery, "is_of", lambda self, origin, number: False)
    monkeypatch.setattr(KeyedStage, "_check", lambda self, last, batch, origin: None)


def retires_what_is_needed(monkeypatch) -> None:
    retire = Checkpoint.retire

    def retiring(self, before, now) -> None:
        if before is not None:
            self.remove_state([file.name for file in before.state.files][:1])
        retire(self, before, now)

    monkeypatch.setattr(Checkpoint, "retire", retiring)


def overwrites_a_log_entry(monkeypatch) -> None:
    monkeypatch.setattr(Store, "create", Store.replace)
    monkeypatch.setattr(Store, "check", lambda self: None)


def forgets_to_clear_the_tag(monkeypatch) -> None:
    def opening(self, b, expected, rebuild):
        table, rebuilt = opened(self, b, expected, rebuild)
        if not rebuilt and expected:
            from headgate.storage.bin_cache import TAG, tag_of

            table.header[TAG] = tag_of(expected)
        return table, rebuilt

    opened = BinCache.open
    monkeypatch.setattr(BinCache, "open", opening)


BUGS = [does_not_publish_again, publishes_before_the_commit]
MORE = [
    removes_claims,
    overwrites_a_log_entry,
    sweeps_before_the_commit,
    a_copy_that_is_there_counts_as_complete,
    sweeps_files_of_later_drivers,
    trusts_any_cached_table,
    takes_the_batch_again,
    retires_what_is_needed,
    forgets_to_clear_the_tag,
]


@pytest.mark.parametrize(
    "bug",
    [*BUGS, *(pytest.param(bug, marks=pytest.mark.full) for bug in MORE)],
    ids=lambda bug: bug.__name__.replace("_", " "),
)
def test_a_bug_is_found_and_made_small(bug, monkeypatch) -> None:
    bug(monkeypatch)
    report = run(4000, stop_at=1)
    assert report.failed, "the bug was not found"
    seed, _ = report.failures[0]
    outcome = told(seed)
    assert outcome.failed
    # Some of these bugs need a past, in which files became obsolete.
    assert outcome.history.size <= max(12, 2 / 3 * history(seed).size)
    assert sum(len(step.faults) for step in outcome.history.steps) <= 2
    assert list(story(outcome))[-1].startswith("WRONG: ")
