"""What commands print is text, never markup."""

from rich.table import Table as Grid

from headgate.cli.console import Output


def test_brackets_in_tables_titles_and_progress_are_shown_as_they_are(capsys) -> None:
    grid = Grid("sql", title="state in [bold]/tmp[/]")
    grid.add_row("SELECT tags[red] FROM events[0]")
    output = Output(as_json=False)
    with output.progress("place [dim]queries[/dim].csv") as tick:
        tick("reading [blue]a[/blue]", 0.5)
    output.result(grid, {})
    told = "".join(capsys.readouterr())
    for text in ("tags[red]", "[bold]/tmp[/]", "[dim]queries[/dim].csv", "[blue]a[/blue]"):
        assert text in told


def test_without_a_terminal_each_step_and_each_tenth_is_a_line(capsys) -> None:
    with Output(as_json=False).progress("bugs") as tick:
        for done in range(100):
            tick(f"hunt: {done} of 100", done / 100)
        tick("report: writing", 1.0)
    told = capsys.readouterr()
    assert not told.out, "a pipe gets results alone"
    assert len(told.err.splitlines()) == 11
