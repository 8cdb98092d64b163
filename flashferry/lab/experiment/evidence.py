"""Tables put into a document between markers, so that what it says is what a command printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises LabError: there is no such file, or it lacks the markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path}: cannot be read ({error.strerror}); give a document with {begin} and {end}.") from None
    after, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text.strip()}\n{end}", before, flags=re.DOTALL)
    if count != 1:
        raise LabError(f"{path}: expected {begin} and {end} once, found them {count} times; put them where it belongs.")
    path.write_text(after, encoding="utf-8")
