"""The groups of golden files by name: how each is captured from the product as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.contract import left, live, offline, refusals, stored

Capture = Callable[[Path], dict[str, str]]
"""Takes an empty folder to work in, and returns files by name."""

GROUPS: Mapping[str, Capture] = {
    "help": offline.help_pages,
    "constants": offline.constants,
    "openapi": offline.service_api,
    "offline": offline.documents,
    "refusals": refusals.refusals,
    "serve": offline.serving,
    "journal": stored.readings,
    "run": live.whole_way,
    "broken": live.broken_copies,
    "lab": live.lab_verbs,
    "probe": live.speed_test,
    "left": left.recovered_and_resumed,
}

LAB = frozenset({"run", "broken", "lab", "probe", "left"})
"""Those that need the lab."""

SOAK = LAB - {"run"}
"""Those that are left to `make soak`."""
