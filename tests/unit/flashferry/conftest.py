"""What the tests of verbs share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_state_folder_given(monkeypatch):
    """Forget at the end which state folder a test's command was given: in life a process has one command."""
    monkeypatch.setattr("flashferry.hints._Given.state_dir", None)
