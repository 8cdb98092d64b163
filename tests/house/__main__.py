"""`python -m tests.house --update-docs` writes service-roles.md and the table of inventory.md."""

from __future__ import annotations

import argparse

from tests.house.key_table import INVENTORY_PAGE, with_key_table
from tests.house.roles_page import ROLES_PAGE, roles_page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", required=True, help="Write the page.")
    parser.parse_args()
    INVENTORY_PAGE.write_text(with_key_table(INVENTORY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    ROLES_PAGE.write_text(roles_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
