"""Cliques of a graph: triangles beside plain Spark SQL, and 4-cliques that do not fit into memory."""

from __future__ import annotations

from headgate_lab.bench.faucet.runs import FaucetSizes, Measured, Runs, graph
from headgate_lab.bench.result import Goal, Result
from headgate_lab.cliques_command import generate
from headgate_lab.graphs.count import count_cliques


def measure(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """Triangles from the file on beside Spark SQL, and 4-cliques beyond memory; one round, since they take minutes."""
    file, warm, beyond = (runs.work / f"{name}.parquet" for name in ("triangles", "warm", "beyond"))
    scale, edges = sizes.triangles
    generate(file, scale, edges, seed=1)
    generate(warm, 10, 10_000, seed=2)
    generate(beyond, *sizes.beyond, seed=1)
    first = [{"file": str(warm)}]
    common = {"file": str(file), "warm": first, "partitions": 8, "memory": "4g", "tight": False}
    ours = runs.run("triangles, headgate cliques", kind="cliques", size=3, **common)
    sql = runs.run("triangles, Spark SQL self-join", kind="self_join", **common)
    exact = count_cliques(graph(scale, edges), 3)
    four = runs.run(
        "4-cliques beyond memory", kind="cliques", size=4, file=str(beyond), memory="1g", warm=first
    )
    rate = ours["answer"] / ours["seconds"], sql["answer"] / sql["seconds"]
    rows_mb = four["answer"] * 4 * 8 / 1e6  # four names of eight bytes
    results = [
        Result("triangles, from the file on", "per s", rate[0], "Spark SQL self-join", rate[1], {}),
        Result("4-cliques beyond memory: all that Spark held", "MB", four["peak"], "their rows", rows_mb, {}),
        Result("4-cliques beyond memory", "s", four["seconds"], None, None, {}),
        Result("4-cliques found", "", four["answer"], None, None, {}),
    ]
    differing = (ours["answer"] != exact) + (sql["answer"] != exact)
    goals = [
        Goal("triangles per second over Spark SQL's", 3, rate[0] / rate[1]),
        Goal("triangle counts that differ from one machine's", 0, differing, at_most=True, unit=""),
        Goal("4-cliques beyond memory: peak memory", 4000, four["peak"], at_most=True, unit=" MB"),
    ]
    return Measured(results, goals)
