"""`python -m tests.house`: the figures of the house; `--update-docs` writes architecture.md and service-roles.md."""

from __future__ import annotations

import argparse
import sys

from tests.house.modules import figures, product
from tests.house.page import PAGE, page
from tests.house.roles_page import ROLES_PAGE, roles_page


def main() -> None:
    """Print the figures, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", help="Write the pages.")
    if parser.parse_args().update_docs:
        PAGE.write_text(page(product()), encoding="utf-8")
        ROLES_PAGE.write_text(roles_page(), encoding="utf-8")
    sys.stdout.write(f"{figures(product())}\n")


if __name__ == "__main__":
    main()
