"""`headgate serve --standby` with Spark: the leader and its JVM are killed under traffic, and the standby takes over."""

import random

import pytest
from tests.attacks.test_kills import killed, say
from tests.service.pair import Pair


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_standby_with_spark_takes_over(java_home, tmp_path) -> None:
    config = tmp_path / "service.toml"
    config.write_text('[spark]\n"spark.driver.memory" = "1g"\n')
    places = ["--folder", str(tmp_path / "service"), "--master", "local[1]", "--config", str(config)]
    pair = Pair(tmp_path, lambda number: places, spark=True)
    try:
        say(killed(pair, 2, random.Random(3)))
    finally:
        pair.end()
