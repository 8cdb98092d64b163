"""What the documentation says is what the code reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.devices.platforms import NAMES
from inventory.host_view import view
from inventory.image_rules import load_image_rules
from inventory.nornir_loader import open_inventory

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inventory.md"


@pytest.fixture
def page() -> str:
    if not PAGE.is_file():
        pytest.skip("the tests run away from the checkout, without docs")
    return PAGE.read_text()


def test_the_examples_on_the_page_are_valid(page, tmp_path):
    """Windows and rules can be copied from the page as they stand."""
    found = {text.split(":")[0]: text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)}
    (tmp_path / "images.yaml").write_text(found["rules"])
    assert len(load_image_rules(tmp_path / "images.yaml", NAMES).rules) == 3
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: h, platform: ios, groups: [east]}")
    indented = found["windows"].replace("\n", "\n    ")
    (tmp_path / "groups.yaml").write_text(f"east:\n  data:\n    {indented}")
    assert len(view(open_inventory(tmp_path).inventory.hosts["r1"]).windows) == 2
    (tmp_path / "groups.yaml").write_text(
        f"east:\n  data:\n    {found['transports'].replace(chr(10), chr(10) + '    ')}"
    )
    assert view(open_inventory(tmp_path).inventory.hosts["r1"]).transport_policy.names == ("scp",)
