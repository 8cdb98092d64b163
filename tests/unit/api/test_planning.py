"""Where `flashferry plan` looks for rules and images."""

from pathlib import Path

from flashferry.api.fleet import FleetOptions
from flashferry.api.planning import image_rules
from inventory.image_rules import Traits

RULES = """
rules:
  - platform: ios-xe
    image: new.bin
"""


def test_rules_beside_a_configuration_file_hold(tmp_path: Path) -> None:
    """An inventory by a plugin has its rules and images beside the configuration file, as a folder has them inside."""
    (tmp_path / "images.yaml").write_text(RULES)
    (tmp_path / "nornir.yaml").write_text("---\n")
    traits = Traits(platform="ios-xe", model="ISR4321/K9", version="16.6.5")
    for inventory in (tmp_path, tmp_path / "nornir.yaml"):
        rules, folders = image_rules(FleetOptions(inventory=inventory).folder)
        assert rules.choose(traits).image == "new.bin"
        assert folders == (tmp_path,)


def test_one_image_for_all_leaves_the_rules_beside_alone(tmp_path: Path) -> None:
    """What is given on the command line goes before a file that merely lies there."""
    (tmp_path / "images.yaml").write_text("no rules at all")
    rules, _ = image_rules(tmp_path, has_image=True)
    assert not rules.rules
