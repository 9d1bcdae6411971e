"""The commands and their options. This module is thin: each command has a module of its own, which
is imported when it is called.

Results go to stdout, and with `--json` nothing else does. A `HeadgateError` is one message and exit
code 1, without a traceback; a traceback is a bug. Ctrl-C ends with code 130.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import headgate
from headgate.cli import recorded
from headgate.cli.backup import backup, restore
from headgate.cli.console import Output
from headgate.cli.delivery import delivery_app
from headgate.cli.doctor import doctor
from headgate.cli.graphs import cliques, rmat
from headgate.cli.group import AsJson, Commands, Quick, Wide
from headgate.cli.query import query_app
from headgate.cli.source import source_app
from headgate.cli.tenant import audit, tenant_app, token_app
from headgate.cli.usage import usage

app = typer.Typer(
    cls=Commands,
    help="Keyed streams on Spark under routing that adapts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _version(asked: bool) -> None:
    """Print headgate's own version, for scripts; `headgate version` also shows what it runs on."""
    if asked:
        typer.echo(f"headgate {headgate.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keyed streams on Spark under routing that adapts."""


@app.command()
def demo(
    policy: Annotated[str, typer.Option(help="The policy to run beside hash routing.")] = "flux-load",
    out: Annotated[Path, typer.Option(help="Folder for the output and the picture.")] = Path("headgate-demo"),
    batches: Annotated[int, typer.Option(help="Length of the stream.")] = 21,
    seconds: Annotated[float, typer.Option(help="Time limit; the stream is shortened if necessary.")] = 110.0,
    rows: Annotated[int, typer.Option(help="Rows in a batch.")] = 16_000,
    channels: Annotated[int, typer.Option(help="Channels of each stage.")] = 8,
    pace: Annotated[float, typer.Option(help="Modelled service time of a row, in microseconds.")] = 500.0,
    shift_every: Annotated[int, typer.Option(help="Batches between changes of the hot keys.")] = 7,
    seed: Annotated[int, typer.Option(help="Seed of the stream.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Show a skewed stream whose hot keys move: hash routing beside a policy, live."""
    from headgate_lab.demo.command import demo as show
    from headgate_lab.demo.run import Settings
    from headgate_lab.demo.stream import Skew

    skew = Skew(batches=batches, rows_per_batch=rows, shift_every=shift_every, seed=seed)
    settings = Settings(out, policy=policy, seconds=seconds, channels=channels, pace_us=pace, skew=skew)
    show(settings, Output(as_json=as_json))


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Which bench; by default, list them.")] = None,
    quick: Quick = False,
    repeat: Annotated[int, typer.Option(help="Rounds; the order of the systems alternates.")] = 1,
    only: Annotated[str, typer.Option(help="Parts to run, with commas, of a bench that has parts.")] = "",
    seed: Annotated[
        int | None, typer.Option(help="The first seed of a bench that draws its instances anew.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the picture, if the bench draws one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure headgate beside Spark's own way, in one run on this machine."""
    from headgate_lab import bench as benches

    output = Output(as_json=as_json)
    if name is None:
        output.result(benches.listing(), {"benches": list(benches.names())})
        return
    with output.progress(f"bench {name}") as tick:
        parts = [part.strip() for part in only.split(",") if part.strip()]
        report = benches.run(name, quick=quick, repeat=repeat, progress=tick, only=parts, seed=seed)
    if out is not None:
        report.save_picture(out)
    output.result(report.as_table(), report.as_json())


@app.command()
def reproduce(
    paper: Annotated[str | None, typer.Argument(help="Which paper; by default, all of them.")] = None,
    figure: Annotated[str | None, typer.Argument(help="One figure; by default, all of them.")] = None,
    quick: Quick = False,
    out: Annotated[Path | None, typer.Option(help="Folder for pictures and data.")] = None,
    save: Annotated[Path | None, typer.Option(help="A results file to put what was measured into.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="Name papers and figures; run nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rerun the papers' figures, and show their claims beside the measurements."""
    from headgate_lab import reproduce as papers

    output = Output(as_json=as_json)
    if listing:
        known = {name: list(papers.figures(name)) for name in papers.papers()}
        output.result(
            "\n".join(f"{n}: {', '.join(f)}" for n, f in known.items()) or "none yet", {"papers": known}
        )
        return
    from headgate_lab.papers import claims as table
    from headgate_lab.papers import overview

    with output.progress(f"reproduce {paper or 'all papers'}") as tick:
        if paper is None:
            every = papers.run_all(quick=quick, out=out, progress=tick, save=save)
        else:
            rows = papers.run(paper, figure, quick=quick, out=out, progress=tick, save=save)
    if paper is not None:
        output.result(table.as_table(paper, rows), table.as_json(paper, rows))
        return
    if not as_json:
        for name, rows in every.items():
            output.console.print(table.as_table(name, rows))
    output.result(overview.as_table(overview.tallies(every)), overview.all_as_json(every))


@app.command()
def chaos(
    histories: Annotated[
        int | None, typer.Option(help="How many histories to play.", show_default="2000")
    ] = None,
    first: Annotated[int | None, typer.Option(help="The seed of the first one.", show_default="0")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes that play them.", show_default="2")] = None,
    seed: Annotated[int | None, typer.Option(help="Tell one history, step by step.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: draw it as an HTML page.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(help="With --trace: the file of the page.", show_default="history-SEED.html"),
    ] = None,
    plant: Annotated[bool, typer.Option("--plant", help="Plant bugs from a list: are they found?")] = False,
    only: Annotated[
        str | None, typer.Option(help="With --plant: those with this text in their names.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="With --plant: histories for each bug.", show_default="20000")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the product's own commit path through histories of faults, each fixed by its seed."""
    from headgate_lab.chaos.command import ChaosOptions
    from headgate_lab.chaos.command import chaos as play

    options = ChaosOptions(histories, first, jobs, seed, trace, to, plant, only, limit)
    if not play(options, Output(as_json=as_json)):
        raise typer.Exit(1)


@app.command()
def simulate(
    scenario: Annotated[str | None, typer.Argument(help="Which scenario; by default, list them.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy to run; repeat the option for more. Default: static, flux-hybrid."),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Machines of the cluster.")] = 32,
    seconds: Annotated[int, typer.Option(help="Length of the run.")] = 30,
    machines: Annotated[int, typer.Option(help="How many machines the scenario affects.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 1,
    paper: Annotated[bool, typer.Option(help="The policies as printed in the paper.")] = False,
    delta_ms: Annotated[
        float | None, typer.Option(help="Shortest collection time; by default, it is tuned.")
    ] = None,
    gap_ms: Annotated[float | None, typer.Option(help="Time between swaps of bins on disk (t_gap).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput and latency into this file.")] = None,
    journal: Annotated[Path | None, typer.Option(help="Write a journal of the rounds, for `replay`.")] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Run policies in a simulated cluster: machines that slow down, lose memory, skewed keys, bursts."""
    from headgate.cli import simulate as simulator
    from headgate.simulator.scenarios import SCENARIOS, Options, about

    output = Output(as_json=as_json, wide=wide)
    if scenario is None:
        output.result(simulator.listing(), {"scenarios": {name: about(name) for name in SCENARIOS}})
        return
    options = Options(nodes=nodes, seconds=seconds, seed=seed, machines=machines)
    run = simulator.RunOptions(policy or ["static", "flux-hybrid"], paper, delta_ms, gap_ms, journal)
    with output.progress(f"simulate {scenario}") as tick:
        results = simulator.simulate(scenario, options, run, plot, tick)
    shown = simulator.as_table(scenario, options, results, wide=wide)
    output.result(shown, simulator.as_json(scenario, options, results))


app.command()(recorded.replay)


@app.command()
def place(
    file: Annotated[
        Path,
        typer.Argument(
            help="Queries: columns query and sources (or source), cost if known. CSV, JSON, Parquet."
        ),
    ],
    sources: Annotated[
        Path | None, typer.Option(help="Columns source and rate; by default, every rate is 1.")
    ] = None,
    servers: Annotated[int, typer.Option(help="How many servers.")] = 10,
    sizes: Annotated[
        str | None,
        typer.Option(help="Sizes of the servers instead of their number, such as 1,1,2 or 1x10,4x2."),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="An online rule, an offline algorithm, or hypergraph.")
    ] = "rare-first",
    relative: Annotated[
        float, typer.Option(help="How far a load may exceed the mean, as a fraction (nu).")
    ] = 0.05,
    absolute: Annotated[
        float, typer.Option(help="The same as a number of queries, while there are few (alpha).")
    ] = 10.0,
    capacity: Annotated[float, typer.Option(help="The most that a server of size 1 can hold.")] = float(
        "inf"
    ),
    repair: Annotated[
        int | None,
        typer.Option(help="Queries that may move after each arrival.", show_default="8 with rare-first"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write query and server: .csv, .json, .jsonl, .parquet.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 7,
    spark: Annotated[
        bool | None, typer.Option("--spark/--no-spark", help="Group on Spark; by default, above 1 GB.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Place queries on servers so that each source is sent to few of them."""
    from headgate.cli import place as placing
    from headgate.hosting import DEFAULT_REPAIR, NO_REPAIR, RULES, Balance

    output = Output(as_json=as_json)
    balance = Balance(relative, absolute, capacity)
    by_default = RULES[algorithm].repair if algorithm in RULES else NO_REPAIR
    budget = by_default if repair is None else replace(DEFAULT_REPAIR, moves=repair)
    options = placing.PlaceOptions(
        file, sources, servers, sizes, algorithm, balance, budget, seed, out, spark
    )
    with output.progress(f"place {file.name}") as tick:
        figures = placing.place(options, tick)
    output.result(placing.as_table(figures), figures)


for command in (cliques, rmat, recorded.journal, recorded.explain, recorded.watch):
    app.command()(command)


@app.command()
def alerts(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write prometheus/headgate-rules.yml and grafana/headgate.json into."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Alerts for Prometheus and a board for Grafana, made from headgate's metrics."""
    from headgate.cli import alerts as alerting

    output = Output(as_json=as_json)
    if out is None:
        output.result(alerting.as_table(), alerting.as_json())
        return
    written = [str(path) for path in alerting.write(out)]
    output.result("\n".join(written), {"written": written})


@app.command()
def serve(
    folder: Annotated[Path, typer.Option(help="Where the service stores everything.")] = Path(
        "headgate-service"
    ),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 8620,
    servers: Annotated[int, typer.Option(help="Servers at the first start.")] = 4,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    registry: Annotated[
        str, typer.Option(help="Path, or postgresql:// URL; by default, a file in the folder.")
    ] = "",
    state: Annotated[
        str, typer.Option(help="Where state and results are: a folder or URL; by default, in the folder.")
    ] = "",
    push: Annotated[
        str, typer.Option(help="Where pushed events wait; by default with the state or in the folder.")
    ] = "",
    standby: Annotated[
        bool, typer.Option("--standby", help="Start, and wait until no other process leads the service.")
    ] = False,
    lease_s: Annotated[
        float, typer.Option(help="Seconds until a silent leader on another machine counts as dead.")
    ] = 10.0,
    drain_s: Annotated[float, typer.Option(help="Seconds that stopping may take.")] = 60.0,
    config: Annotated[
        Path | None, typer.Option(help="TOML: service, http, oidc, limits, spark, streams, functions.")
    ] = None,
    demo: Annotated[bool, typer.Option(help="Feed a source with invented weather.")] = True,
    as_json: AsJson = False,
) -> None:
    """Serve standing queries in SQL over HTTP: one Spark application for all of them."""
    from headgate.cli.serve import serve
    from headgate.service.config import ServiceConfig

    options = ServiceConfig(
        folder, host, port, servers, master, registry, demo, state, push, standby, lease_s, drain_s
    )
    serve(options.with_file(config), Output(as_json=as_json))


app.add_typer(query_app, name="query")
app.command()(usage)
app.add_typer(source_app, name="source")
app.add_typer(tenant_app, name="tenant")
app.add_typer(token_app, name="token")
app.command()(audit)
app.add_typer(delivery_app, name="delivery")
app.command()(doctor)
app.command()(backup)
app.command()(restore)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Show the versions of headgate and of what it runs on."""
    from headgate.cli.versions import versions

    by_name = versions()
    Output(as_json=as_json).result("\n".join(f"{name} {value}" for name, value in by_name.items()), by_name)


def main() -> None:
    """The `headgate` command."""
    app()
