"""What the documentation and the template say is what the code reads."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flashferry.devices.platforms import NAMES
from inventory.image_rules import load_image_rules
from inventory.load import open_inventory, sample_directory
from inventory.shapes import DATA_KEYS
from inventory.view import view

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inventory.md"
TEMPLATE = sample_directory().parent / "template"


@pytest.fixture
def page() -> str:
    if not PAGE.is_file():
        pytest.skip("the tests run away from the checkout, without docs")
    return PAGE.read_text()


def test_every_key_is_documented_and_no_other(page):
    """The table of data keys names what the code reads."""
    table = page.split("## Keys of `data`")[1].split("##")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == sorted(DATA_KEYS)


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


def test_what_the_template_leaves_out_is_valid(tmp_path):
    """Every line that a stranger is invited to take the `#` away from can be used as it stands."""
    for name in ("hosts.yaml", "groups.yaml", "defaults.yaml"):
        shutil.copy(TEMPLATE / name, tmp_path)
        text = (tmp_path / name).read_text()
        # A key or a list item behind the `#`, no sentence.
        (tmp_path / name).write_text(
            re.sub(r"^( +)# ((?: *)(?:\w+:(?: |$)|- \{).*)$", r"\1\2", text, flags=re.MULTILINE)
        )
    one = view(open_inventory(tmp_path).inventory.hosts["branch1-rtr1"])
    assert (one.max_copies, one.vrf, one.source_interface, len(one.windows)) == (4, "Mgmt-intf", "Loopback0", 1)
    assert (one.transports, one.clear_text) == (("scp", "sftp"), False)
    assert (one.depot, one.neighbours, one.lan_rate_bps) == ("depot.branch1.example.net", True, 1e9)
    assert one.image == "c2900-universalk9-mz.SPA.158-3.M9.bin"
    shutil.copy(TEMPLATE / "images.yaml.example", tmp_path / "images.yaml")
    assert len(load_image_rules(tmp_path / "images.yaml", NAMES).rules) == 2
