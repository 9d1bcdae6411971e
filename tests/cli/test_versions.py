"""`headgate version`."""

import json

import headgate


def test_version_as_json(call) -> None:
    told = call("version", "--json")
    assert json.loads(told.stdout)["headgate"] == headgate.__version__


def test_version_says_what_to_install_brackets_included(call, monkeypatch) -> None:
    monkeypatch.setattr("headgate.cli.versions.spark", lambda: "missing (pip install 'headgate[spark]')")
    assert "spark missing (pip install 'headgate[spark]')" in call("version").stdout


def test_the_version_as_an_option(call) -> None:
    told = call("--version")
    assert (told.exit_code, told.stdout) == (0, f"headgate {headgate.__version__}\n")
