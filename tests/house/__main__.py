"""Write what the house tests hold files against (pages of docs, the list of violations); measure the code base."""

from __future__ import annotations

import argparse
import sys

from tests.house import measure, ratchet
from tests.house.key_table import INVENTORY_PAGE, with_key_table
from tests.house.roles_page import ROLES_PAGE, roles_page
from tests.house.settings_table import PLAN_PAGE, with_settings_table


def main() -> None:
    """Write the pages, or the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", help="Write the pages of docs/.")
    parser.add_argument("--update-ratchet", action="store_true", help="Take over violations that became fewer.")
    parser.add_argument("--measure", action="store_true", help="Print figures of the code base's shape.")
    given = parser.parse_args()
    if not (given.update_docs or given.update_ratchet or given.measure):
        parser.error("expected --update-docs, --update-ratchet or --measure")
    if given.measure:
        for name, figure in measure.figures():
            sys.stdout.write(f"{name:50}{figure:>9,}\n")
    if given.update_docs:
        INVENTORY_PAGE.write_text(with_key_table(INVENTORY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        PLAN_PAGE.write_text(with_settings_table(PLAN_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        ROLES_PAGE.write_text(roles_page(), encoding="utf-8")
    if given.update_ratchet:
        ratchet.update(ratchet.listed() if ratchet.LIST.exists() else {}, ratchet.found())


if __name__ == "__main__":
    main()
