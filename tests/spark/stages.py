"""Stages for tests, from settings by their plain names: which group of a stage's settings each belongs to is looked up here."""

from typing import Any

import headgate as hg

GROUPS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "routing": (hg.Routing, ("policy", "channels", "bins", "mode", "guard", "smoothing")),
    "limits": (hg.Limits, ("memory", "buffer", "arrivals", "turn_ms")),
    "expansion": (hg.Expansion, ("step", "gate", "fan_out", "explode", "schema")),
}


def grouped(options: dict[str, Any]) -> dict[str, Any]:
    """Settings as `hg.Stage` takes them. Bins stay where they are unless a test names a policy."""
    options = {"policy": "static", **options}
    settings = dict(options)
    for group, (kind, names) in GROUPS.items():
        chosen = {name: settings.pop(name) for name in names if name in settings}
        if chosen:
            settings[group] = kind(**chosen)
    return settings


def stage_of(**options: Any) -> Any:
    """A stage, whose rows take `pace_us` if that is given."""
    pace = options.pop("pace_us", None)
    stage = hg.Stage(**grouped(options))
    if pace is not None:
        hg.testing.pace(stage, pace)
    return stage
