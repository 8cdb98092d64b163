"""docs/inventory.md's table of keys, from the keys themselves."""

from __future__ import annotations

from inventory.keys import KEYS
from tests.house.modules import ROOT

INVENTORY_PAGE = ROOT / "docs" / "inventory.md"
_HEAD = "| key | meaning | unit, range | default |\n|---|---|---|---|\n"


def with_key_table(page: str) -> str:
    """Return the page with the table that stands below its heading "Keys of `data`" as the keys have it."""
    before, heading, rest = page.partition("## Keys of `data`\n\n")
    rows = "".join(f"| `{key.name}` | {key.meaning} | {key.values} | {key.default} |\n" for key in KEYS)
    return before + heading + _HEAD + rows + "\n" + rest.partition("\n\n")[2]
