"""Descriptions of nights for tests: one that is whole, and changes to it by key."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import NightDescription

WHOLE: dict[str, Any] = {
    "controller": {"url": "https://cml.example.net"},
    "topology": {
        "sites": [
            {
                "name": "branch",
                "condition": {"bandwidth_kbps": 50000, "latency_ms": 50, "loss_percent": 0.01},
                "nodes": [{"node_definition": "csr1000v", "count": 2}, {"node_definition": "iosv"}],
            },
            {"name": "office", "condition": {"latency_ms": 10}, "nodes": [{"node_definition": "iol-xe"}]},
        ]
    },
    "night": {"image": "image.bin"},
    "artefacts": {"folder": "nights"},
}
ABSENT = object()


def changed(changes: dict[str, Any], base: dict[str, Any] = WHOLE) -> dict[str, Any]:
    """Return a description's content with other values by the way to them: `topology.sites.0.condition.latency_ms`."""
    content = copy.deepcopy(base)
    for way, value in changes.items():
        *above, last = [int(word) if word.isdigit() else word for word in way.split(".")]
        here: Any = content
        for word in above:
            here = here[word] if isinstance(here, list) else here.setdefault(word, {})
        if value is ABSENT:
            del here[last]
        else:
            here[last] = value
    return content


def written(folder: Path, changes: dict[str, Any] | None = None, base: dict[str, Any] = WHOLE) -> Path:
    """Return a description's file, with an image beside it."""
    text = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(changed(changes or {}, base), text)
    path = folder / "nightly.yaml"
    path.write_text(text.getvalue(), encoding="utf-8")
    (folder / "image.bin").write_bytes(b"image")
    return path


def described(folder: Path, changes: dict[str, Any] | None = None) -> NightDescription:
    """Return a description that was written and read."""
    return load_description(written(folder, changes))
