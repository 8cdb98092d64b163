"""The journal's database opened to be read: asking neither makes nor changes one (sqlite.org/uri.html, `mode=ro`).

One of an earlier release is read as if it had the present tables; only a run brings it up to date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from flashferry.core.errors import ConfigInvalid
from staging.journal_schema import FILE, show_as_present


@contextmanager
def reading(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield the journal's database at one moment, to be read only, or None where there is none.

    Raises:
        ConfigInvalid: There is one and it cannot be read, or it is of a newer release.
    """
    path = directory / FILE
    try:
        if not path.is_file():
            yield None
            return
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)) as database:
            show_as_present(database)
            # What a run writes meanwhile belongs to the next look: the tables fit one another.
            database.execute("BEGIN")
            yield database
    except (OSError, sqlite3.Error) as error:
        raise ConfigInvalid(
            f"the journal in {directory} cannot be read: {error}", hint="Check --state-dir and the file's rights"
        ) from None
