"""Kills on the way from a real Kafka broker to Delta tables, and what is lost or doubled by them: nothing, if all is well.

    python -m tests.chaos.kafka_delta_kills [--kills 300] [--seed 1] [--out benchmarks/results/kafka-delta-kills.json]

Three queries (`kafka_delta_job.STREAMS`) read one topic, which grows before each life of a driver. The kills, all SIGKILL and
all drawn from the seed: of the driver before an operation of a store or a step of publishing; of the driver at a moment;
of the driver with its JVM; of one of Spark's Python workers while a batch is computed; of the broker. At last each
query runs to the end, and its table is compared with the records of the topic.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.kafka_delta_job import FAILED, OPERATIONS, PUBLISHING, STREAMS, TOPIC, Life
from tests.chaos.kafka_delta_oracle import compare
from tests.chaos.kafka_delta_world import JOB, Drivers, connect_server, kill, workers_of
from tests.conftest import SHORT_LIVED_JVM
from tests.kafka_broker import Broker
from tests.kafka_mock import read_topic

ROOT = Path(__file__).parents[2]
FED = 60
"""How many records the topic gets before a life."""
KEYS, PARTITIONS = 7, 2
BEFORE, ANY, JVM, WORKERS, BROKER = (
    "driver before an operation", "driver at any moment", "driver with its JVM", "Python workers", "broker",
)  # fmt: skip
KINDS = {BEFORE: 190, ANY: 60, JVM: 20, WORKERS: 20, BROKER: 10}
"""What is killed, and how often of 300 times."""
STEPS = ("open", "prepare", "compute", "decide", "commit", "journal", "retire", "publish")
LABELS = (
    *OPERATIONS,
    *(f"step {step}" for step in STEPS),
    *(f"table {step.lstrip('_')}{end}" for step in PUBLISHING for end in ("", " done")),
)
NOTHING = "after start: nothing"
OPERATIONS_OF_A_LIFE = 250
"""About so many operations a driver does before the kill that is drawn."""


@dataclass
class Tally:
    """What was killed, where, and what came of it."""

    kinds: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return sum(self.kinds.values())

    def killed(self, kind: str, moment: str) -> None:
        """A kill that happened, and the driver's newest operation before it."""
        self.kinds[kind] += 1
        step, _, operation = (moment or NOTHING).partition(": ")
        self.steps[step] += 1
        self.operations[operation] += 1


class Campaign:
    """Kills until there were enough of them."""

    def __init__(self, broker: Broker, remote: str, server: int, folder: Path, seed: int) -> None:
        self.broker, self.remote, self.server, self.folder = broker, remote, server, folder
        self.draw, self.tally, self.fed = random.Random(seed), Tally(), 0
        self.drivers = Drivers(folder)
        for stream in STREAMS:
            (folder / stream).mkdir()

    def feed(self) -> None:
        """Let the topic grow. All records of a key are in one partition."""
        for _ in range(FED):
            key = self.draw.randrange(KEYS)
            self._send(b'{"k": %d, "n": %d}' % (key, self.fed), key % PARTITIONS)
            self.fed += 1
        assert self._producer.flush(60) == 0

    def _send(self, value: bytes, partition: int) -> None:
        if not hasattr(self, "_producer"):
            self._producer = self.broker.producer()
        self._producer.produce(TOPIC, value, partition=partition)

    def life(self, **options: Any) -> Life:
        stream = options.pop("stream", None) or self.draw.choice(STREAMS)
        made = Life(stream, self.broker.servers, str(self.folder / stream), remote=self.remote)
        return replace(made, **options)

    def moment(self, life: Life) -> str:
        """The newest operation of a driver."""
        return (Path(life.folder) / "moment").read_text().strip()

    # -- kills

    def run(self, kills: int, tell: bool = False) -> None:
        """So many kills."""
        planned = [kind for kind, part in KINDS.items() for _ in range(round(part * kills / 300))]
        self.draw.shuffle(planned)
        began = time.monotonic()
        for kind in planned[:kills]:
            while not self._kill(kind):  # the life may have ended before the moment came
                pass
            if tell:
                print(f"{self.tally.kills} kills, {time.monotonic() - began:.0f} s", flush=True)

    def _kill(self, kind: str) -> bool:
        """A life with a kill; say whether the kill happened."""
        self.tally.lives += 1
        self.feed()
        if kind == BEFORE:
            return self._driver(kind, self.life(**self._operation()))
        if kind == ANY:
            return self._driver(kind, self.life(), seconds=self.draw.uniform(0, 2.5))
        if kind == JVM:
            return self._classic(kind)
        return self._beside(kind)

    def _operation(self) -> dict[str, Any]:
        if self.draw.random() < 0.5:
            return {"at": self.draw.randint(1, OPERATIONS_OF_A_LIFE)}
        return {"label": self.draw.choice(LABELS), "times": self.draw.randint(1, 3)}

    def _driver(self, kind: str, life: Life, seconds: float | None = None) -> bool:
        driver = self.drivers.start(life)
        if seconds is not None:
            time.sleep(seconds)
            kill(driver)
        return self._ended(kind, life, self.drivers.wait())

    def _classic(self, kind: str) -> bool:
        life = self.life(remote="", **self._operation())
        with (self.folder / "classic.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, str(JOB), "run", life.text()], stderr=log, stdout=log, start_new_session=True
            )
        return self._ended(kind, life, child.wait())

    def _ended(self, kind: str, life: Life, code: int) -> bool:
        assert code in (0, -signal.SIGKILL), (
            f"{life}: exit code {code}: {self.drivers.log.read_text()[-3000:]}"
        )
        if code == 0:
            return False
        self.tally.killed(kind, self.moment(life))
        return True

    def _beside(self, kind: str) -> bool:
        """Kill what the driver needs. It goes on, or fails with an error of ours and goes on when it is started again."""
        life = self.life(timeout=self.draw.choice(["2 s", "1 min"]) if kind == BROKER else "1 min")
        (Path(life.folder) / "moment").unlink(missing_ok=True)
        self.drivers.start(life)
        step = (
            "after prepare" if kind == WORKERS else self.draw.choice(["start", "open", "prepare", "commit"])
        )
        moment = self._await(life, step)
        time.sleep(self.draw.uniform(0, 0.1))
        done = False
        if kind == BROKER:
            self.broker.kill()
            time.sleep(self.draw.uniform(0, 3))
            self.broker.start()
            done = True
        elif workers := workers_of(self.server):
            done = kill(self.draw.choice(sorted(workers)))
        code = self.drivers.wait()
        assert code in (0, FAILED), f"{life}: exit code {code}: {self.drivers.log.read_text()[-3000:]}"
        if code == FAILED:
            said = self.drivers.log.read_text().strip().splitlines()[-1]
            assert "start the query again" in said, said
            self.tally.errors[said.partition(":")[0]] += 1
        if done:
            self.tally.killed(kind, moment)
        return done

    def _await(self, life: Life, step: str) -> str:
        """Wait until the driver has done a step, or for five seconds; return its newest operation."""
        until = time.monotonic() + 5
        moment = NOTHING
        while time.monotonic() < until:
            path = Path(life.folder) / "moment"
            moment = (path.read_text().strip() if path.exists() else "") or moment
            if step in moment:
                break
            time.sleep(0.002)
        return moment

    # -- the end

    def finish(self) -> dict[str, Any]:
        """Let each query run to the end, and compare its table with the topic."""
        for stream in STREAMS:
            self.drivers.start(self.life(stream=stream, rows=100 * 40))
            assert self.drivers.wait() == 0, self.drivers.log.read_text()[-3000:]
        topic = [m for part in range(PARTITIONS) for m in read_topic(self.broker.servers, TOPIC, part)]
        records = [(m.partition(), m.offset(), *json.loads(m.value()).values()) for m in topic]
        assert len(records) == self.fed
        lost, doubled, batches = 0, 0, 0
        for stream in STREAMS:
            missing, twice, count = compare(stream, self.folder / stream / "table", records)
            lost, doubled, batches = lost + missing, doubled + twice, batches + count
        return {"lost": lost, "doubled": doubled, "records": len(records), "batches": batches}


def campaign(folder: Path, kills: int, seed: int, *, tell: bool = False) -> dict[str, Any]:
    """All of it; what came of it, as JSON has it."""
    began = time.monotonic()
    broker = Broker(folder / "kafka")
    try:
        broker.create(TOPIC, PARTITIONS)
        with connect_server(folder) as (remote, server):
            made = Campaign(broker, remote, server, folder, seed)
            try:
                made.run(kills, tell)
                result = made.finish()
            finally:
                made.drivers.end()
    finally:
        broker.kill()
    tally = made.tally
    return {
        "kills": tally.kills,
        **result,
        "seed": seed,
        "lives": tally.lives,
        "seconds": round(time.monotonic() - began, 1),
        "kinds": dict(tally.kinds.most_common()),
        "errors": dict(tally.errors.most_common()),
        "steps": dict(tally.steps.most_common()),
        "operations": dict(tally.operations.most_common()),
    }


def main() -> None:
    given = argparse.ArgumentParser(description="Kills on the way from Kafka to Delta")
    given.add_argument("--kills", type=int, default=300)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/kafka-delta-kills.json")
    asked = given.parse_args()
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    with tempfile.TemporaryDirectory() as folder:
        result = campaign(Path(folder), asked.kills, asked.seed, tell=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
