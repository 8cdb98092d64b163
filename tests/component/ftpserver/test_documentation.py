"""What docs/server.md claims is there."""

import re
from pathlib import Path

import pytest

from flashferry.core.values import field_names
from flashferry.fileserver import Limits, SenderProfile, ServerEvent, TransferProgress, TransferRecord

_ROOT = Path(__file__).parents[3]
_TEXT = (_ROOT / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_test_of_the_security_table_exists() -> None:
    """Each name in the table is that of a test, so that no row rests on one that was renamed or dropped."""
    named = set(re.findall(r"`(test_\w+)`", _TEXT))
    defined = {
        name
        for path in (_ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - defined == set()


@pytest.mark.parametrize("kind", [TransferRecord, TransferProgress, ServerEvent, Limits, SenderProfile])
def test_every_field_is_explained(kind: type) -> None:
    """Fields of the JSON lines and of the settings all stand in the document."""
    assert [name for name in field_names(kind) if f"`{name}`" not in _TEXT] == []
