"""`headgate place`: every format, every algorithm, and files that cannot be."""

import json

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.place import KNOWN

QUERIES = {f"q{i}": [f"s{i % 5}", f"s{(i * 3) % 5}"] for i in range(40)}


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(app, ["place", *map(str, args)])


@pytest.fixture
def files(tmp_path):
    rows = [{"query": q, "sources": s} for q, s in QUERIES.items()]
    (tmp_path / "names.json").write_text(json.dumps(QUERIES))
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "wide.csv").write_text(
        "query,sources\n" + "".join(f"{q},{';'.join(s)}\n" for q, s in QUERIES.items())
    )
    (tmp_path / "long.csv").write_text(
        "query,source\n" + "".join(f"{q},{s}\n" for q, ss in QUERIES.items() for s in ss)
    )
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rates.csv").write_text("source,rate\n" + "".join(f"s{i},{i + 1}\n" for i in range(5)))
    return tmp_path


def test_every_format_gives_the_same_placement(call, files) -> None:
    seen = set()
    for name in ("names.json", "rows.json", "rows.jsonl", "wide.csv", "long.csv", "rows.parquet"):
        out = files / f"out-{name}.csv"
        found = call(files / name, "--sources", files / "rates.csv", "--servers", 4, "--out", out, "--json")
        assert found.exit_code == 0, found.output
        data = json.loads(found.stdout)
        assert (data["queries"], data["sources"], data["servers"], data["needed"]) == (40, 5, 4, 15.0)
        assert 1 <= data["floor"] <= data["replication"] <= 4
        table = csv.read_csv(out)
        assert table.column("query").to_pylist() == list(QUERIES)
        seen.add((data["traffic"], *table.column("server").to_pylist()))
    assert len(seen) == 1


@pytest.mark.parametrize("algorithm", [a for a in KNOWN if a != "single-source"])
def test_every_algorithm(call, files, algorithm) -> None:
    found = call(files / "rows.parquet", "--algorithm", algorithm, "--servers", 3, "--json")
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert data["algorithm"] == algorithm
    assert data["largest_load"] <= 40 / 3 + 10


def test_sizes_costs_repair_and_the_table_for_people(call, files) -> None:
    (files / "costs.csv").write_text("query,sources,cost\na,x;y,2.5\nb,x,1\nc,y,1\n")
    found = call(files / "costs.csv", "--sizes", "1x2,4", "--repair", 1)
    assert found.exit_code == 0, found.output
    assert "3 queries on 3 servers by rare-first" in found.output
    assert "at best" in found.output
    assert "moves" in found.output
    for kind in ("json", "jsonl", "parquet"):
        assert call(files / "costs.csv", "--out", files / f"o.{kind}").exit_code == 0
    assert set(json.loads((files / "o.json").read_text())) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "args", "says"),
    [
        ("query,sources\na,x\na,y\n", (), "query 'a' occurs twice"),
        (
            "query,sources\na,x\n",
            ("--sources", "rates.csv"),
            "reads source 'x', which is not among the sources",
        ),
        ("query,sources\na,x;\n", (), "an empty name"),
        ("query,sources,cost\na,x,-1\n", (), "the cost of query 'a' is -1"),
        ("query,sources,cost\na,x,much\n", (), "not numbers"),
        ("name,sources\na,x\n", (), "has no column 'query'"),
        ("query,sources\n", (), "holds no query"),
        ("query,sources\na,x\n", ("--servers", "0"), "at least one"),
        ("query,sources\na,x\n", ("--servers", "-3"), "at least one"),
        (
            "query,sources\na,x\nb,x\nc,x\n",
            ("--capacity", "1", "--servers", "2"),
            "raise the capacity or add servers",
        ),
        ("query,sources\na,x\n", ("--algorithm", "ics"), "did you mean 'ic'"),
        ("query,sources\na,x\n", ("--out", "there.xls"), "the file name must end in"),
        ("query,sources\na,x\n", ("--sizes", "1,big"), "give sizes like"),
        ("query,sources\na,x\n", ("--algorithm", "mms", "--repair", "1"), "--repair works with online rules"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, files, monkeypatch, text, args, says) -> None:
    monkeypatch.chdir(files)
    (files / "bad.csv").write_text(text)
    found = call("bad.csv", *args)
    assert found.exit_code == 1
    assert says in found.output.replace("\n", " ")


def test_rates_and_files_that_cannot_be(call, files) -> None:
    for rates, says in (
        ("s0,-1", "rate of source 's0' is -1"),
        ("s0,nan", "is nan"),
        ("s0,1\ns0,2", "occurs twice"),
    ):
        (files / "bad.csv").write_text(f"source,rate\n{rates}\n")
        found = call(files / "rows.parquet", "--sources", files / "bad.csv")
        assert (found.exit_code, says in found.output) == (1, True), found.output
    assert "there is no file" in call(files / "nowhere.csv").output
    (files / "torn.json").write_text("[{")
    assert "cannot be read" in call(files / "torn.json").output
