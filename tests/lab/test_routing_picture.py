"""The picture of key, bin and channel is the one that the script draws."""

from pathlib import Path
from xml.etree import ElementTree

from headgate_lab.routing_picture import KEYS, picture, tables

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_in_the_docs_is_the_one_that_is_drawn() -> None:
    assert (DOCS / "img" / "key-bin-channel.svg").read_text(encoding="utf-8") == picture()


def test_every_key_bin_and_channel_is_named() -> None:
    words = {text.text for text in ElementTree.fromstring(picture()).iter("{http://www.w3.org/2000/svg}text")}
    before, after = tables()
    assert words >= {*KEYS, *(f"bin {bin}" for bin in before.bins)}
    assert words >= {f"channel {channel}" for channel in range(before.channels)}
    assert sum(before.channel_of[bin] != after.channel_of[bin] for bin in before.bins) == 1
