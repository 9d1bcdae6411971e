"""From a recorded run to what the page shows: nothing is lost, nothing is invented."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate.watch
from headgate.control.guard import Guard
from headgate.control.journal import Entry
from headgate.control.loop import Decision
from headgate.control.modes import Mode
from headgate.operators.event_time import COMPLETE, Clock
from headgate.testing import builders
from headgate.testing.strategies import reports, tables
from headgate.watch import model
from headgate.watch.channels import channel_bars, hot_keys, moved
from headgate.watch.reader import CheckpointReader
from headgate.watch.record import Commit, StageRecord, Timing


@pytest.fixture(scope="module")
def stage(recorded) -> StageRecord:
    reader = CheckpointReader(recorded)
    reader.look()
    (record,) = reader.records()
    return record


def quiet(report, base, table) -> Entry:
    return Entry(
        report, Decision(batch=report.batch, mode=Mode.act, plan=None, refusal=None, base=base, table=table)
    )


@given(st.data())
def test_the_segments_of_all_channels_hold_all_rows_and_all_bins(data) -> None:
    table = data.draw(tables())
    report = data.draw(reports(table))
    load = channel_bars(quiet(report, table, table), None)
    segments = [part for bar in load["bars"] for part in bar["segments"]]
    assert sum(part["rows"] for part in segments) == report.rows
    assert sum(1 if part["bin"] is not None else part["bins"] for part in segments) == len(report.bins)
    assert [bar["channel"] for bar in load["bars"]] == list(range(table.channels))
    assert load["mean"] == pytest.approx(sum(bar["value"] for bar in load["bars"]) / table.channels, abs=1e-2)
    for bar in load["bars"]:
        on_it = {part["bin"] for part in bar["segments"]} - {None}
        assert on_it <= set(table.bins_of(bar["channel"]))


@given(st.data())
def test_a_bin_moved_if_its_channel_is_another(data) -> None:
    before, after = data.draw(tables(max_pins=0)), data.draw(tables(max_pins=0))
    found = {move.bin: (move.source, move.target) for move in moved(before, after)}
    for bin, channel in after.items():
        was = before.channel_of.get(bin)
        assert found.get(bin) == (None if was == channel else (was, channel))
    assert moved(after, after) == []


def test_every_move_of_the_journal_is_shown(stage) -> None:
    carried_out = 0
    for at, entry in enumerate(stage.entries):
        plan = entry.decision.plan
        if plan is None or not entry.decision.changed:
            continue
        now = channel_bars(entry, None)
        shown = {(move["bin"], move["from"], move["to"]) for move in now["goes"]}
        assert {(move.bin, move.source, move.target) for move in plan.moves} <= shown
        segments = {part["bin"] for bar in now["bars"] for part in bar["segments"]}
        assert {move.bin for move in plan.moves} <= segments
        carried_out += 1
        if at + 1 < len(stage.entries):
            later = channel_bars(stage.entries[at + 1], entry)
            assert {(move["bin"], move["to"]) for move in later["came"]} == {
                (bin, target) for bin, _, target in shown
            }
    assert carried_out >= 3


def test_every_plan_is_told_with_its_reason_newest_first(stage) -> None:
    told = model.decisions(stage.entries)
    plans = {entry.report.batch: entry for entry in stage.entries if entry.decision.plan}
    assert [one["batch"] for one in told] == sorted(plans, reverse=True)
    kinds = {one["kind"] for one in told}
    assert kinds == {"done", "refused"}
    for one in told:
        plan = plans[one["batch"]].decision.plan
        assert plan is not None
        assert one["reason"] == plan.reason
        assert len(one["moves"]) == len(plan.moves)
        assert (one["kind"] == "refused") == bool(one["refusal"] and one["remedy"])
    assert any(one["channels"] == 5 for one in told)


def test_the_page_is_json_without_nan_and_all_of_it_is_there(stage, recorded) -> None:
    view = model.page_view(recorded, [stage], now=1_800_000_000.0, state="running")
    (shown,) = json.loads(json.dumps(view, allow_nan=False))["stages"]
    last = stage.entries[-1].report
    assert (shown["batch"], shown["rows"]) == (last.batch, last.rows)
    assert [batch["batch"] for batch in shown["timeline"]] == [e.report.batch for e in stage.entries]
    assert sum(batch["waiting"] for batch in shown["timeline"]) > 0
    assert shown["event_time"]["watermark"] < shown["event_time"]["newest"]
    assert shown["committed_at"] is not None


@pytest.mark.parametrize("timing", [None, Timing(plan_ms=3.0, commit_ms=20.0, publish_ms=1.5)])
def test_the_steps_of_a_batch_sum_to_its_time(stage, timing) -> None:
    for entry in stage.entries:
        batch = model._batch(entry, timing)
        assert batch["ms"] == pytest.approx(sum(batch["steps"].values()), abs=1e-2)
        assert min(batch["steps"].values()) >= 0
        assert list(batch["steps"]) == [name for name in model.STEPS if name in batch["steps"]]
        more = 0.0 if timing is None else timing.plan_ms + timing.commit_ms + timing.publish_ms
        assert batch["ms"] == pytest.approx(entry.report.wall_ms + more, abs=1e-2)


def test_hot_keys_have_their_share(stage) -> None:
    report, table = stage.entries[-1].report, stage.entries[-1].decision.base
    shown = hot_keys(report, table, most=5)
    assert len(shown) == 5
    assert [key["share"] for key in shown] == pytest.approx(
        [key.rows / report.rows for key in report.hot_keys[:5]], abs=1e-4
    )
    assert sum(key["share"] for key in shown) <= 1
    for key in shown:
        assert key["channels"] == sorted({table.channel_of[bin] for bin in key["bins"]})


def test_a_stage_before_its_first_batch_and_one_whose_channels_had_no_time() -> None:
    empty = model.stage_view(StageRecord("Aggregate(n=count())", ("user",)), now=0.0)
    assert empty == {"operator": "Aggregate(n=count())", "key": ["user"], "batch": None}
    table = builders.table([0, 1, 1])
    report = builders.report(0, table, [5, 2, 1], ms_per_row=0.0)
    load = channel_bars(quiet(report, table, table), None)
    assert (load["unit"], [bar["value"] for bar in load["bars"]], load["mean"]) == ("rows", [5, 3], 4)
    silent = builders.report(0, table, [0, 0, 0])
    assert channel_bars(quiet(silent, table, table), None)["bars"][0]["of_mean"] == 1.0


def test_event_time_of_an_input_that_is_complete_and_of_a_stage_without() -> None:
    def shown(clock: Clock):
        return model.event_time(StageRecord("a", (), (), {3: Commit(3, clock, at=10.0)}), now=20.0)

    assert shown(Clock(newest=())) is None
    done = shown(Clock(newest=(5_000_000,), watermark=COMPLETE, counts={"late": 2}))
    assert done is not None
    assert (done["complete"], done["watermark"], done["counts"]) == (True, None, {"late": 2})
    open_ = shown(Clock(newest=(9_000_000, 7_000_000), watermark=4_000_000))
    assert open_ is not None
    assert (open_["newest"], open_["lag_s"], open_["history"]) == (7.0, 16.0, [[3, 4.0, 6.0]])


def test_what_if_with_the_policy_that_ran_shows_the_run_itself(stage) -> None:
    found = model.what_if(stage, "flux-load", Guard())
    calm = [
        batch for batch, entry in zip(found["batches"], stage.entries, strict=True) if entry.report.batch < 3
    ]
    for batch in calm:  # before rows waited: what waits is not predicted
        assert batch["replayed"]["imbalance"] == pytest.approx(batch["recorded"]["imbalance"], rel=0.02)
    assert (found["recorded"], found["count"]) == ("flux-load, rescale", len(stage.entries))
    static = model.what_if(stage, "static")
    assert static["summary"]["replayed"]["mean_imbalance"] > found["summary"]["replayed"]["mean_imbalance"]


def test_only_the_reader_and_the_server_touch_the_world() -> None:
    for name in ("record", "channels", "model", "replayed", "card"):
        tree = ast.parse((Path(headgate.watch.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        named = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
        }
        assert named.isdisjoint({"time", "os", "pathlib", "threading", "http", "random", "fsspec"}), name
