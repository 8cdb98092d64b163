"""A service over an empty state folder, as whoever a test says."""

from __future__ import annotations

import pytest

from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase


@pytest.fixture
def service(tmp_path):
    return Service(state=tmp_path, settings=ServiceSettings(), database=ServiceDatabase(tmp_path))
