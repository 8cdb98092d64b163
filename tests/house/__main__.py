"""`python -m tests.house --update-docs` writes service-roles.md."""

from __future__ import annotations

import argparse

from tests.house.roles_page import ROLES_PAGE, roles_page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", required=True, help="Write the page.")
    parser.parse_args()
    ROLES_PAGE.write_text(roles_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
