"""Hold the product against its golden files, or with `--update` take over what it gives today."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.contract import golden
from tests.contract.groups import GROUPS


def main() -> int:
    """Go through the groups that are named, or all; return 1 where a contract has changed."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("group", nargs="*", help=f"only these groups: {', '.join(GROUPS)}")
    given = parser.parse_args()
    if strange := sorted(set(given.group) - GROUPS.keys()):
        parser.error(f"expected groups of {', '.join(GROUPS)}, found {strange[0]!r}")
    differing = 0
    for group in dict.fromkeys(given.group or GROUPS):
        with tempfile.TemporaryDirectory() as folder:
            captured = GROUPS[group](Path(folder))
        if given.update:
            changed = golden.update(group, captured)
            sys.stdout.write(f"{group}: {len(captured)} files, changed: {', '.join(changed) or 'none'}\n")
        elif found := golden.differences(golden.stored(group), captured):
            differing = 1
            sys.stdout.write(f"{group}:\n{found}\n")
    return differing


if __name__ == "__main__":
    sys.exit(main())
