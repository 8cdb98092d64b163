"""Which image for which device: the first rule that fits, releases compared as Cisco numbers them."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms import NAMES
from inventory.image_rules import ImageRules, Traits, load_image_rules, rules_beside
from inventory.releases import compare, read_release

RULES = """
rules:
  - {model: ISR4331*, version: "< 17.9.4", image: isr4300.17.09.04a.bin}
  - {platform: ios-xe, model: "isr4*", version: "!= 17.9.4a", image: images/isr4400.17.09.04a.bin}
  - {platform: ios, version: "15.8(3)M*", stay: true}
  - {platform: ios, version: ">= 15.2, < 15.9", image: c2900.15.9.bin}
"""


def rules(folder, text: str) -> ImageRules:
    path = folder / "images.yaml"
    path.write_text(text if text.strip().startswith(("rules:", "-", "rule")) else f"rules: [{text}]")
    return load_image_rules(path, NAMES)


@pytest.fixture
def fleet_rules(tmp_path):
    (tmp_path / "images").mkdir()
    return rules(tmp_path, RULES)


def device(platform: str, model: str, version: str) -> Traits:
    return Traits(platform=platform, model=model, version=version)


@pytest.mark.parametrize(
    ("traits", "image", "reason"),
    [
        (
            device("ios-xe", "ISR4331/K9", "16.12.5"),
            "isr4300.17.09.04a.bin",
            "rule 1: model ISR4331*, version < 17.9.4",
        ),
        (
            device("ios-xe", "ISR4331/K9", "17.09.04"),
            "images/isr4400.17.09.04a.bin",
            "rule 2: platform ios-xe, model isr4*, version != 17.9.4a",
        ),
        (
            device("ios", "CISCO2911/K9", "15.7(3)M4b"),
            "c2900.15.9.bin",
            "rule 4: platform ios, version >= 15.2, < 15.9",
        ),
    ],
)
def test_the_first_rule_that_fits_decides(fleet_rules, traits, image, reason):
    """The reason names the rule by its place and what it asks."""
    choice = fleet_rules.choose(traits)
    assert (choice.image, choice.reason) == (image, reason)


def test_an_image_of_the_hosts_own_goes_before_all_rules(fleet_rules, tmp_path):
    """Also before one that says the device stays as it is; its folder counts from the rules' file."""
    traits = device("ios", "CISCO2911/K9", "15.8(3)M2")
    choice = fleet_rules.choose(traits, explicit="images/other.bin")
    assert (choice.image, choice.reason) == ("images/other.bin", "explicit for the host")
    assert choice.path == tmp_path / "images" / "other.bin"
    assert fleet_rules.choose(traits, explicit="other.bin").path is None
    assert ImageRules().choose(traits, explicit="other.bin").image == "other.bin"


@pytest.mark.parametrize(
    ("traits", "sentence"),
    [
        (
            device("ios-xe", "C8300-1N1S-6T", "17.9.4"),
            r"^no rule of .*images\.yaml fits C8300-1N1S-6T with ios-xe 17\.9\.4\. Add a rule, or give",
        ),
        (
            device("ios", "CISCO2911/K9", "15.8(3)M2"),
            r"^CISCO2911/K9 with ios 15\.8\(3\)M2 stays as it is, by rule 3: platform ios, version 15\.8\(3\)M\* in ",
        ),
        (
            device("ios", "vios_l2", "15.2(CML_NIGHTLY_20190423)FLO_DSGS7"),
            r"images\.yaml: rule 4: .*expected a release that compares with >= 15\.2, found '15\.2\(CML",
        ),
    ],
)
def test_a_device_that_gets_no_image_is_told_why(fleet_rules, traits, sentence):
    """No rule, a rule that it stays, or a release that cannot be judged: no image is guessed."""
    with pytest.raises(ConfigInvalid, match=sentence):
        fleet_rules.choose(traits)


def test_without_rules_only_explicit_images_count():
    """The sentence does not speak of a file that is not there."""
    with pytest.raises(ConfigInvalid, match=r"^there are no image rules for ISR4331/K9"):
        ImageRules().choose(device("ios-xe", "ISR4331/K9", "17.9.4"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule: []", "unknown key 'rule'; did you mean 'rules'"),
        ("rules: []", r"key 'rules': expected a list with at least one rule, found an empty list"),
        ("rules: 5", "key 'rules': .*found 5"),
        ("- a", "expected a mapping, found a list with 1 entry"),
        ("5", "rule 1: expected a mapping, found 5"),
        ("{modell: x, image: a.bin}", "rule 1: unknown key 'modell'; did you mean 'model'"),
        ("{colour: x, image: a.bin}", "rule 1: unknown key, text of 6 characters; expected some of platform, model"),
        ("{model: x}", "rule 1: expected either an 'image' or 'stay: true', found neither"),
        ("{stay: true, image: a.bin}", "rule 1: .*found both"),
        (
            "{image: a.bin, add: maybe}",
            "rule 1: add: expected true or false, .*found text of 5 characters",
        ),
        ("{stay: true, add: true}", "rule 1: add: expected .*found 'stay: true' beside it"),
        ("{stay: maybe}", "rule 1: stay: expected true or false, found text of 5 characters"),
        ("{platform: iosxe, image: a.bin}", "rule 1: platform: expected ios or ios-xe, found 'iosxe'"),
        ("{model: 4331, image: a.bin}", r"rule 1: model: expected a pattern such as ISR4\*, found a number. Put it in"),
        ("{version: 17.10, image: a.bin}", "rule 1: version: .*found a number. Put it in quotes"),
        (
            '{version: "< new", image: a.bin}',
            "rule 1: version: expected comparisons such as .*found text of 5 characters with a blank",
        ),
        ('{version: "=> 17.3", image: a.bin}', "rule 1: version: .*found '=> 17.3'"),
        ('{version: "17.3, < 17.9", image: a.bin}', "rule 1: version: .*found '17.3'"),
        ("{image: nowhere/a.bin}", "rule 1: image nowhere/a.bin: expected a folder .*nowhere, found none"),
        ("{image: 'a b'}", "rule 1: expected an image's file name"),
    ],
)
def test_wrong_rules_are_told_with_file_and_place(tmp_path, text, message):
    """The file, the rule's place and what was expected stand in one sentence."""
    with pytest.raises(ConfigInvalid, match=rf"^.*images\.yaml: {message}"):
        rules(tmp_path, text)


def test_a_missing_file_is_told(tmp_path):
    """The sentence names what was looked for."""
    with pytest.raises(ConfigInvalid, match=r"no image rules at .*images\.yaml"):
        load_image_rules(tmp_path / "images.yaml", NAMES)


def test_rules_are_found_beside_an_inventory(fleet_rules, tmp_path):
    """In its folder, or in that of its configuration file; without them only explicit images count."""
    (tmp_path / "nornir.yaml").touch()
    assert rules_beside(tmp_path, NAMES) == rules_beside(tmp_path / "nornir.yaml", NAMES) == fleet_rules
    assert rules_beside(tmp_path / "images", NAMES) == ImageRules()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("", "model: ISR4331"),
        ("model: '*'", ""),
        ("model: ISR4*", "model: isr4331*"),
        ("model: ISR4*", "model: ISR4?31"),
        ("platform: ios", "platform: ios, model: C*"),
        ("version: '< 17.9.4'", "version: '< 17.9.4'"),
        ("version: '< 17.9.4'", "version: '<= 17.6'"),
        ("version: '<= 17.9.4'", "version: '< 17.9.4'"),
        ("version: '> 15.2'", "version: '>= 15.4, < 15.9'"),
        ("version: '>= 15.2, < 16'", "version: '== 15.8(3)M2'"),
        ("version: '17.9.*'", "version: '17.9.*', model: C*"),
    ],
)
def test_a_rule_that_can_never_be_reached_is_refused(tmp_path, earlier, later):
    """Both rules are named: one of them is not what the operator meant."""
    with pytest.raises(ConfigInvalid, match=r"rule 2: .*: can never be reached, for rule 1: .* Put it before"):
        rules(
            tmp_path,
            f"{{{earlier + ', ' if earlier else ''}image: a.bin}}, {{{later + ', ' if later else ''}image: b.bin}}",
        )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("model: ISR4331*", "model: ISR4*"),
        ("model: ISR4?", "model: ISR4*"),
        ("model: '*B*'", "model: '[AB]X'"),
        ("platform: ios, model: C*", "model: C*"),
        ("version: '< 17.6'", "version: '< 17.9.4'"),
        ("version: '< 17.9.4'", "version: '<= 17.9.4'"),
        ("version: '< 17.9.4'", "version: '> 17.9.4'"),
        ("version: '17.9.*'", "version: '< 18'"),
        ("version: '< 18'", "model: C*"),
        ("version: '< 15.2(4)M'", "version: '< 15.2(4)S'"),
        ("version: '!= 17.9.4'", "version: '== 17.9.4'"),
    ],
)
def test_a_rule_that_may_be_reached_is_kept(tmp_path, earlier, later):
    """What cannot be told for certain is no reason to refuse."""
    assert len(rules(tmp_path, f"{{{earlier}, image: a.bin}}, {{{later}, image: b.bin}}").rules) == 2


@pytest.mark.parametrize(
    "ascending",
    [
        "12.2(55)SE10 12.4(24)T8 15.1(4)M12a 15.2(7)E3 15.8(3)M 15.8(3)M2 15.8(3)M2a 15.8(3)M10 15.9(3)M",
        "03.16.04b.S 16.9.1 16.11.1 16.11.1a 16.12.3 16.12.3s 17.3 17.03.04a 17.9.4 17.09.04a 17.12.1 17.15.1",
        "3.16.4S 3.16.4bS 3.16.5S",
        "15.8 15.8(3)M2 15.9",
    ],
)
def test_releases_stand_in_ciscos_order(ascending):
    """Numbers count as numbers, a rebuild stands behind what it was built from, zeros in front mean nothing."""
    found = [read_release(one) for one in ascending.split()]
    assert None not in found
    for place, left in enumerate(found):
        for other, right in enumerate(found):
            assert compare(left, right) == (place > other) - (place < other), (left, right)


@pytest.mark.parametrize(("left", "right"), [("17.9.4", "17.09.04"), ("3.16.4bS", "03.16.04b.S")])
def test_one_release_written_in_two_ways_is_one(left, right):
    """`show version` writes zeros, people do not."""
    assert compare(read_release(left), read_release(right)) == 0


def test_trains_of_equal_numbers_are_not_compared():
    """15.2(4)S is neither older nor newer than 15.2(4)M3."""
    assert compare(read_release("15.2(4)M3"), read_release("15.2(4)S")) is None


@pytest.mark.parametrize("text", ["", "new", "15.2(CML_NIGHTLY_20190423)FLO_DSGS7", "17.9.4 [Cupertino]"])
def test_what_is_no_release_is_none(text):
    """It is left to the caller to say so."""
    assert read_release(text) is None


def test_a_rule_may_have_its_image_added(tmp_path):
    """What it says goes with the choice; a device's own image has no rule that could say so."""
    found = rules(tmp_path, "{model: C9300*, image: a.bin, add: true}, {image: b.bin}")
    switch, other = device("ios-xe", "C9300-24UX", "17.6.1"), device("ios-xe", "C8000V", "17.6.1")
    assert [found.choose(one).adds for one in (switch, other)] == [True, False]
    assert not found.choose(switch, explicit="c.bin").adds
