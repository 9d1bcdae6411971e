"""One look for all pictures: colours from one palette, separators in numbers, no point cut off, a title."""

import re
from pathlib import Path

import pytest

import headgate
import headgate_lab
from headgate.cli import pictures
from headgate.cli.pictures import PALETTE, finished, number, outside
from headgate_lab.bench import kernel, versus
from headgate_lab.bench.direct import picture as direct
from headgate_lab.bench.direct.works import DIRECT
from headgate_lab.bench.faucet import gate
from headgate_lab.bench.result import Result

figures = pytest.importorskip("matplotlib.figure")
SOURCES = [
    path
    for package in (headgate, headgate_lab)
    for path in Path(str(package.__file__)).parent.rglob("*.py")
    if "chaos" not in path.parts
]


def test_every_colour_is_in_the_palette() -> None:
    for path in SOURCES:
        found = set(re.findall(r"#[0-9a-f]{6}", path.read_text(encoding="utf-8")))
        assert found <= set(PALETTE), path


def test_every_picture_is_saved_in_one_way() -> None:
    saved = [path.name for path in SOURCES if "savefig(" in path.read_text(encoding="utf-8")]
    assert saved == ["pictures.py"]


def drawn():
    rows = Result("aggregate: 1M keys", "rows/s", 1_234_567.0, "native hdfs", 234_567.0, {})
    late = Result("latency: fixed rate", "s", 1.5, "native hdfs", 2.5, {})
    assert DIRECT
    yield "direct", direct.picture([rows, late])
    yield "versus", versus.picture({"aggregate": rows, "windows": rows})
    yield "kernel", kernel.picture({"a": 1e3, "b": 1e4, "c": 1e5, "d": 2e6})
    yield "faucet", gate.drawn([(0.0, 900.0), (40.0, 1100.0)], [(0.0, 900.0), (50.0, 3000.0)])


@pytest.mark.parametrize(
    "name, figure", list(drawn()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_pictures_have_titles_and_readable_axes(name, figure, tmp_path) -> None:
    path = pictures.save(figure, tmp_path / f"{name}.png")
    assert path.stat().st_size > 5000
    assert figure.get_suptitle()
    for axes in figure.axes:
        assert outside(axes) == []
        for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
            assert not re.search(r"\d{4}|\de[+-]?\d", label.get_text()), label


def test_points_outside_come_inside_and_marks_on_the_edge_are_whole() -> None:
    figure = figures.Figure()
    linear, log = figure.subplots(1, 2)
    linear.plot([0, 10_000], [-5, 20_000], marker="o")
    linear.set_xlim(1, 100)
    linear.set_ylim(bottom=0)
    log.plot([1, 10, 0], [1e-3, 1e7, 5], marker="s")
    log.set_xscale("log")
    log.set_yscale("log")
    log.set_ylim(1, 10)
    assert outside(linear)
    assert outside(log)
    finished(figure)
    assert outside(linear) == outside(log) == []
    assert (linear.get_xlim(), linear.get_ylim()[0]) == ((0, 10_000), -5)
    assert log.get_ylim() == (1e-3, 1e7)
    assert not linear.get_lines()[0].get_clip_on()
    assert (
        linear.yaxis.get_major_formatter()(20_000, 0)
        == log.xaxis.get_major_formatter()(20_000, 0)
        == "20,000"
    )


def test_words_on_an_axis_stay() -> None:
    figure = figures.Figure()
    axes = figure.subplots()
    axes.bar([0, 1], [1, 2])
    axes.set_xticks([0, 1], ["ours", "theirs"])
    finished(figure)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ours", "theirs"]
    assert number(0.25) == "0.25"
