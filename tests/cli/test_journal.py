"""`headgate journal` and `headgate explain`: tables, lines of JSON, and journals that are torn or damaged."""

import json


def test_journal_as_a_table(call, checkpoint) -> None:
    told = call("journal", str(checkpoint))
    assert told.exit_code == 0
    assert "channel 0 has" in told.stdout
    assert "yes" in told.stdout


def test_journal_as_lines_of_json(call, checkpoint) -> None:
    rows = [json.loads(line) for line in call("journal", str(checkpoint), "--json").stdout.splitlines()]
    assert [row["batch"] for row in rows] == [0, 1, 2, 3]
    assert [row["carried_out"] for row in rows] == [True, False, False, False]
    assert rows[0]["moves"] > 0
    assert rows[0]["bytes_moved"] == 1000 * rows[0]["moves"]


def test_the_last_batches_of_a_journal(call, checkpoint) -> None:
    told = call("journal", str(checkpoint), "--json", "--last", "2")
    assert [json.loads(line)["batch"] for line in told.stdout.splitlines()] == [2, 3]


def test_a_torn_last_line_is_left_out_and_told(call, checkpoint) -> None:
    with (checkpoint / "journal" / "000000.jsonl").open("a") as file:
        file.write('{"format":1,"rep')
    told = call("journal", str(checkpoint), "--json")
    assert told.exit_code == 0
    assert len(told.stdout.splitlines()) == 4
    assert "torn" in told.stderr


def test_a_damaged_line_is_named(call, checkpoint) -> None:
    path = checkpoint / "journal" / "000000.jsonl"
    path.write_text("rubbish\n" + path.read_text())
    told = call("journal", str(checkpoint))
    assert told.exit_code == 1
    assert "journal line 1" in told.stderr


def test_explain_says_why(call, checkpoint) -> None:
    told = call("explain", str(checkpoint))
    assert told.exit_code == 0
    assert told.stdout.startswith("batch ")
    first = json.loads(call("explain", str(checkpoint), "--batch", "0", "--json").stdout)
    assert first["batch"] == 0
    assert first["explanation"][0].startswith("batch 0: ")
    missing = call("explain", str(checkpoint), "--batch", "999")
    assert missing.exit_code != 0
    assert "batch 999 is not in the journal" in missing.stderr


def test_a_folder_without_a_journal(call, tmp_path) -> None:
    told = call("journal", str(tmp_path))
    assert told.exit_code == 1
    assert "holds no journal" in told.stderr
