"""The commands about graphs: `headgate cliques` and `headgate rmat`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import Output
from headgate.cli.group import AsJson


def cliques(
    graph: Annotated[
        str, typer.Argument(help="Edges: Parquet (source, target), or text and CSV, two numbers a line.")
    ],
    size: Annotated[int, typer.Option(help="Vertices of a clique: 3, 4 or 5.")] = 3,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the cliques; by default, they are only counted.")
    ] = None,
    in_flight: Annotated[int, typer.Option(help="Waves in flight through each gate.")] = 2,
    batch: Annotated[str, typer.Option(help="Proposals in a wave, or auto.")] = "16000000",
    cores: Annotated[int, typer.Option(help="Cores for Spark.")] = 2,
    memory: Annotated[str, typer.Option(help="Memory of Spark's JVM.")] = "1g",
    strict: Annotated[bool, typer.Option(help="Refuse malformed, duplicate edges and self-loops.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count or list the cliques of a graph on Spark, with bounded work in flight."""
    from headgate.flow.gate import Gate
    from headgate_lab import cliques_command as command

    output = Output(as_json=as_json)
    gate = Gate(in_flight=in_flight, batch=int(batch) if batch.lstrip("-").isdecimal() else batch)
    options = command.CliqueOptions(graph, size, out, gate, cores, memory, strict)
    with output.progress(f"cliques {Path(graph).name}") as tick:
        figures = command.find(options, tick)
    output.result(command.as_table(figures), figures)


def rmat(
    out: Annotated[Path, typer.Argument(help="The file to write: .parquet, or text.")],
    scale: Annotated[int, typer.Option(help="There are 2^scale vertices.")] = 14,
    edges: Annotated[
        int | None, typer.Option(help="How many; by default, 14 for each vertex, as in LiveJournal.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the graph.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Generate a random graph with the degrees of a social network (R-MAT)."""
    from headgate_lab import cliques_command as command

    graph = command.generate(out, scale, 14 << scale if edges is None else edges, seed)
    Output(as_json=as_json).result(
        f"{graph['edges']:,} edges over {graph['vertices']:,} vertices in {out}", graph
    )
