"""`flashferry plan` without an image."""

from __future__ import annotations

import pytest

from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid


def test_a_plan_without_any_image_is_refused_before_any_login(tmp_path, monkeypatch):
    """One sentence with all the places where an image could stand, and no device is asked."""
    monkeypatch.setattr("flashferry.api.planning.plan_fleet", lambda *_, **__: pytest.fail("devices were asked"))
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1, platform: ios, username: u, password: p}\n")
    args = ["plan", "-i", str(tmp_path), "--state-dir", str(tmp_path / "state")]
    with pytest.raises(ConfigInvalid, match=r"no image is given: neither --image nor --image-rules, no images\.yaml"):
        build()(args, standalone_mode=False)
