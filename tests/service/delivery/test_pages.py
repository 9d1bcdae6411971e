"""What the pages show about deliveries works as it stands there."""

import re
import time
import tomllib
from pathlib import Path

from headgate.service.delivery.webhook import sign
from headgate.service.targets_config import Allowed

DOCS = Path(__file__).parents[3] / "docs"


def block(page, language, word):
    blocks = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    return found


def test_the_targets_of_the_page_are_a_configuration() -> None:
    body = tomllib.loads(block("operate/service.md", "toml", "targets.toml"))
    allowed = Allowed.of(body, {"KAFKA_PASSWORD": "hidden"})
    assert sorted(allowed.targets) == ["bus", "ice", "lake"]
    assert allowed.targets["bus"].settings["options"]["sasl.password"] == "hidden"
    assert allowed.webhooks.allows("ann")


def test_the_receiver_of_the_page_knows_what_is_genuine() -> None:
    names: dict = {}
    exec(block("reference/service.md", "python", "def is_genuine"), names)
    now = int(time.time())
    header = sign(["whsec_a"], b"body", now)
    assert names["is_genuine"]("whsec_a", header, b"body")
    assert not names["is_genuine"]("whsec_b", header, b"body")
    assert not names["is_genuine"]("whsec_a", header, b"other")
    assert not names["is_genuine"]("whsec_a", sign(["whsec_a"], b"body", now - 1000), b"body")
