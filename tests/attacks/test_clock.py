"""Whatever the clock does, what was pushed is read once, in order."""

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.service.pushed import Pushed

from headgate.service.batch.loop import Loop

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0


@pytest.mark.parametrize("jump", [-YEAR, -DAY, -HOUR, HOUR, DAY, YEAR])
def test_a_clock_that_jumps_hides_no_event(tmp_path, monkeypatch, jump) -> None:
    now = [1.8e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("time.time_ns", lambda: int(now[0] * 1e9))
    local = Local(tmp_path, servers=1)
    (number,) = local.add("SELECT n FROM alpha")
    pushed = list[int]()
    loop = Loop(local.service, local.processor, [Pushed(local.service)], pa.concat_tables)
    for part in range(6):
        now[0] += 1.0 if part % 2 else jump
        values = list(range(10 * part, 10 * part + 10))
        local.service.push_events(local.ann, "alpha", [{"time": 1000.0 + n, "n": n} for n in values])
        pushed += values
        if part == 3:  # the clock has jumped while nobody was there, too
            loop.stop()
            local.restart()
            loop = Loop(local.service, local.processor, [Pushed(local.service)], pa.concat_tables)
        if part != 2:
            loop.step()
    for _ in range(50):  # what had no time on a busy machine comes with a later batch
        if local.service.lag()["seconds"] == 0 and len(
            local.service.read(local.ann, number, None, 1000)[0]
        ) == len(pushed):
            break
        loop.step()
    rows, _ = local.service.read(local.ann, number, None, 1000)
    read = [row["values"]["n"] for row in sorted(rows, key=lambda row: row["batch"])]
    assert read == pushed
    assert np.all(np.diff(read) == 1)
    assert local.service.lag()["seconds"] == 0
    loop.stop()
    local.service.close()
