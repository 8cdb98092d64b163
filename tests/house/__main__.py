"""`python -m tests.house`: the figures of the house; `--update-docs` writes docs/architecture.md."""

from __future__ import annotations

import argparse
import sys

from tests.house.modules import figures, product
from tests.house.page import PAGE, page


def main() -> None:
    """Print the figures, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--update-docs", action="store_true", help="Write docs/architecture.md.")
    if parser.parse_args().update_docs:
        PAGE.write_text(page(product()), encoding="utf-8")
    sys.stdout.write(f"{figures(product())}\n")


if __name__ == "__main__":
    main()
