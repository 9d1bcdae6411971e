"""What the JVM says about its memory adds up."""

from typing import Any

from headgate_lab.jvm_account import JvmAccount
from headgate_lab.memory import watched


def test_the_account_adds_up_and_is_watched(spark: Any) -> None:
    account = JvmAccount(spark)
    account.settle()
    with watched(account) as memory:
        assert spark.range(1000).count() == 1000
    assert 0 < memory.most["live"] <= memory.most["heap"]
    assert memory.most["code"] > 0
    assert memory.most["buffers"] >= 0
    assert memory.most["heap"] + memory.most["code"] < 8 * memory.most["jvm"], "a slip of unit"
    assert memory.most["all"] == memory.peak == max(size for _, size in memory.course)
    assert memory.grown("live") >= 0
