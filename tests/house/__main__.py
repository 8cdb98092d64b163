"""`python -m tests.house --update-docs` writes architecture.md and service-roles.md."""

from __future__ import annotations

import argparse

from tests.house.modules import product
from tests.house.page import PAGE, page
from tests.house.roles_page import ROLES_PAGE, roles_page


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", required=True, help="Write the pages.")
    parser.parse_args()
    PAGE.write_text(page(product()), encoding="utf-8")
    ROLES_PAGE.write_text(roles_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
