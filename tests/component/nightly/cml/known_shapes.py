"""Hold the shapes that are shipped against those of the stand-in controller, or with `--update` take them over."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from flashferry.lab.cml.standin import standin_controller
from flashferry.nightly.cml import record
from flashferry.nightly.cml.access import read_version
from flashferry.nightly.cml.record import answers_of
from tests.component.nightly.cml.standing import CLOCK, access

VERSIONS = ("2.9.1+build.7", "2.10.0+build.5")


def known(version: str) -> tuple[Path, str]:
    """Return the file of a version's shapes, and what must be in it."""
    told = read_version(version)
    assert told is not None
    with standin_controller(version=version) as standin:
        noted = answers_of(access(standin), has_lab=True, node="alpine", clock=CLOCK)
    content = {
        "made_from": f"the stand-in controller, {version}",
        "answers": record.as_json(noted, has_examples=False),
    }
    return Path(record.__file__).with_name(record.shapes_file(told)), json.dumps(content, indent=1) + "\n"


def main() -> int:
    """Go through the versions; return 1 where a file is another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the files anew")
    is_update = parser.parse_args().update
    stale = 0
    for version in VERSIONS:
        path, text = known(version)
        if is_update:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            stale = 1
            sys.stdout.write(f"{path}: stale\n")
    return stale


if __name__ == "__main__":
    sys.exit(main())
