"""No complaint about an inventory quotes what could be a secret: not a value, not a key, not the parser's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nornir.core.inventory import Defaults, Groups, Hosts, Inventory
from nornir.core.plugins.inventory import InventoryPluginRegister

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms import NAMES
from inventory.entry_checks import DATA_KEYS
from inventory.host_view import view
from inventory.image_rules import load_image_rules
from inventory.nornir_loader import open_inventory
from inventory.selection import Selection, narrowed

SECRET = "Sommer-2031"
KINDS = (
    SECRET,
    f"[{SECRET}]",
    f"{{{SECRET}: x}}",
    f"{{x: {SECRET}}}",
    f'"{SECRET} two"',
    f'"{SECRET}\\n"',
    f'"{SECRET}\\e[31m"',
    "20312031",
    "2031.5555",
    "0x135EAC1F",
    "2031-12-31",
    "!!binary U29tbWVyLTIwMzE=",
)
"""A secret in all the shapes that YAML has for a value."""

NEVER = (SECRET, "20312031", "2031.5555", str(0x135EAC1F), "2031, 12", "2031-12-31", "U29tbWVy", "\x1b")
ENTRY_KEYS = ("hostname", "port", "username", "password", "platform", "groups", "data", "connection_options")
OPTION_KEYS = ("hostname", "port", "username", "password", "platform", "extras")
WINDOW_KEYS = ("days", "from", "until", "timezone")


def complaint(folder: Path) -> str:
    """Open an inventory and look at all its hosts; return what is complained of, empty where nothing is."""
    try:
        for host in open_inventory(folder).inventory.hosts.values():
            view(host)
    except ConfigInvalid as error:
        return str(error)
    return ""


def written(folder: Path, hosts: str, groups: str = "east: {}") -> Path:
    (folder / "hosts.yaml").write_text(hosts)
    (folder / "groups.yaml").write_text(groups)
    return folder


@pytest.mark.parametrize("value", KINDS)
@pytest.mark.parametrize(
    "place",
    [
        *(
            f"r1: {{hostname: h, platform: ios, {key}: VALUE}}"
            for key in ENTRY_KEYS
            if key not in ("hostname", "platform")
        ),
        "r1: {hostname: VALUE, platform: ios}",
        "r1: {hostname: h, platform: VALUE}",
        *(f"r1: {{hostname: h, platform: ios, data: {{{key}: VALUE}}}}" for key in DATA_KEYS),
        *(
            f"r1: {{hostname: h, platform: ios, connection_options: {{napalm: {{{key}: VALUE}}}}}}"
            for key in OPTION_KEYS
        ),
        *(
            f'r1: {{hostname: h, platform: ios, data: {{windows: [{{from: "22:00", until: "05:00", {key}: VALUE}}]}}}}'
            for key in ("days", "timezone", "day")
        ),
        'r1: {hostname: h, platform: ios, data: {windows: [{from: VALUE, until: "05:00"}]}}',
        "r1: {hostname: h, platform: ios, data: {windows: [{from: '22:00', until: '05:00', days: [VALUE]}]}}",
        "r1: {hostname: h, platform: ios, data: {windows: [VALUE]}}",
        "r1: {hostname: h, platform: ios, groups: [VALUE]}",
        "r1: VALUE",
        "[VALUE]",
        "VALUE",
    ],
)
def test_no_value_is_quoted_wherever_it_stands(tmp_path, place, value):
    """Whatever stands in the place of whatever: the complaint, if there is one, says where and not what."""
    if (place, value) == ("VALUE", KINDS[2]):
        pytest.skip("what stands outermost is the name of a host, and names are told")
    said = complaint(written(tmp_path, place.replace("VALUE", value)))
    assert not [word for word in NEVER if word in said]
    assert said.isprintable()


@pytest.mark.parametrize("where", ["hosts", "groups", "defaults"])
@pytest.mark.parametrize(
    "key",
    [
        f"password:{SECRET}",
        f"pasword:{SECRET}",
        SECRET,
        "enable_secret:Sommer",
        f"'{SECRET}\\n'",
        "20312031",
        f"? [{SECRET}]\n  ",
    ],
)
def test_no_key_is_quoted_that_could_be_a_secret(tmp_path, where, key):
    """`password:word`, the blank forgotten, is a key to YAML; so is a value whose key was forgotten."""
    written(tmp_path, "r1: {hostname: h, platform: ios}")
    above = "" if where == "defaults" else "r9:\n  "
    (tmp_path / f"{where}.yaml").write_text(f"{above}{key}: x\n")
    said = complaint(tmp_path)
    assert f"{where}.yaml" in said
    assert not [word for word in (*NEVER, "Sommer") if word in said]


def test_a_forgotten_blank_is_told(tmp_path):
    """The commonest slip of all is named, with the line that it is in."""
    said = complaint(written(tmp_path, f"r1:\n  hostname: h\n  'password:{SECRET}': \n"))
    assert re.search(
        r"unknown key, text of 20 characters: the blank after 'password:' is missing \(line 3\)\. Keys of", said
    )


def test_a_slip_in_a_key_of_data_is_told_without_what_follows(tmp_path):
    """Keys of data are the user's own; one that begins with one of ours and a colon is none of them."""
    said = complaint(written(tmp_path, f"r1: {{hostname: h, platform: ios, data: {{enable_secret:{SECRET}}}}}"))
    assert "the blank after 'enable_secret:' is missing (line 1)" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("r1:\n  password: WORD1\n  password: WORD2\n", r"line 3: not valid YAML: key 'password' stands twice"),
        ("r1: {}\nr1: {password: WORD1}\n", r"line 2: not valid YAML: key 'r1' stands twice"),
        ("r1:\n  WORD1: a\n  WORD1: b\n", r"line 3: not valid YAML: a key stands twice"),
        ("r1:\n  password: *WORD1\n", r"line 2: .* begins with \* is an alias.*put it in quotes"),
        ("r1:\n  password: !WORD1\n", r"line 2: .* begins with ! is a tag.*put it in quotes"),
        ("r1:\n  password: !!WORD1 x\n", "line 2: .*a tag"),
        ("r1:\n  password: !WORD1!x y\n", "line 2: .*a tag"),
        ("r1:\n  password: @WORD1\n", "line 2: .*a sign that YAML keeps for itself.*put it in quotes"),
        ("r1:\n  password: %WORD1\n", "line 2: .*a sign that YAML keeps for itself"),
        ("r1:\n  password: WORD1: x\n", "line 2: .*one colon too many"),
        ('r1:\n  password: "WORD1\\q"\n', "line 2: .*a backslash in double quotes"),
        ("r1:\n  password: 'WORD1\n", "a quote is not closed"),
        ("r1:\n  password: 'WORD1'x\n", "line 2: .*check its indentation, quotes and brackets"),
        ("r1:\n  password: |WORD1\n", "line 2: .*begins with [|] or >"),
        ("r1:\n  password: {WORD1\n", "a bracket or brace is not closed"),
        ("r1:\n\tpassword: WORD1\n", "line 2: .*a tab"),
        ("r1: x\n---\npassword: WORD1\n", "line 2: .*one document"),
        ("r1:\n  {a: WORD1}: b\n", "line 2: .*in place of a key"),
        ("r1:\n  password: !!timestamp WORD1\n", "line 2: .*a date that there is not"),
        ("r1:\n  password: 2031-13-45\n", "a value cannot be read as the number, date or key that it looks like"),
        ("r1:\n  password: !!int WORD1\n", "a value cannot be read as the number"),
        ("r1:\n  password: !!bool WORD1\n", "a value cannot be read as the number"),
        ("r1:\n  ? [WORD1, {x: y}]\n  : b\n", "a value cannot be read as the number"),
        ("r1:\n  password: a\x01WORD1\n", "expected text in UTF-8"),
        ("[" * 5000, "brackets are nested"),
    ],
)
def test_what_the_parser_says_is_told_in_other_words(tmp_path, text, told):
    """File and line, what is wrong and what to do; never the value that it stumbled over."""
    said = complaint(written(tmp_path, text))
    assert re.search(rf"hosts\.yaml.*{told}", said)
    assert "WORD" not in said.replace("password", "")
    assert "2031" not in said


def test_what_the_parser_warns_of_is_not_printed(tmp_path, capsys, recwarn):
    """An anchor that stands twice is valid, and a warning of it would show both lines."""
    written(tmp_path, "r1: {hostname: h, password: &a one-WORD}\nr2: {hostname: h, password: &a other-WORD}\n")
    assert list(open_inventory(tmp_path).inventory.hosts) == ["r1", "r2"]
    assert "WORD" not in "".join((*capsys.readouterr(), *(str(one.message) for one in recwarn)))


def test_text_that_is_no_utf_8_is_told(tmp_path):
    """Bytes of another encoding are not shown."""
    (tmp_path / "hosts.yaml").write_bytes(b"r1: {hostname: h, password: W\xd6RD}\n")
    assert "expected text in UTF-8" in complaint(tmp_path)


@pytest.mark.parametrize("key", ["model", "version", "image", "platform", "stay", "colour", f"model:{SECRET}"])
@pytest.mark.parametrize("value", KINDS)
def test_image_rules_are_not_quoted_either(tmp_path, key, value):
    """They stand beside the inventory, and are edited by the same hands."""
    (tmp_path / "images.yaml").write_text(
        f"rules:\n- {{image: a.bin, {key}: {value}}}\n".replace("image: a.bin, image", "image")
    )
    said = ""
    try:
        load_image_rules(tmp_path / "images.yaml", NAMES)
    except ConfigInvalid as error:
        said = str(error)
    assert said or key not in {"colour", f"model:{SECRET}"}
    assert not [word for word in NEVER if word in said]


def test_a_filter_that_fits_nothing_tells_no_values_of_the_users_own_keys(tmp_path):
    """What the inventory has instead is told for sites, groups and the like; nobody knows what a key `note` holds."""
    written(
        tmp_path, f"r1: {{hostname: h, data: {{site: oslo, note: {SECRET}, admin_password: x, 'rack:{SECRET}': 1}}}}"
    )
    nornir = open_inventory(tmp_path)
    said = []
    for asked in ("site=rome", "note=x", "admin_password=y", "nothing=1"):
        with pytest.raises(ConfigInvalid) as caught:
            narrowed(nornir, Selection(filters=(asked,)))
        said.append(str(caught.value))
    assert SECRET not in "".join(said)
    assert "site is oslo" in said[0]
    assert "note is one of 1 other values" in said[1]
    assert "no device has 'admin_password'" in said[2]
    assert "the inventory has group, hostname, name, note, site" in said[3]


class Telling:
    """A plugin that fails, quoting what it was given."""

    def __init__(self, **options):
        self.options = options

    def load(self) -> Inventory:
        if self.options.get("raises") == "nothing":
            return Inventory(hosts=Hosts(), groups=Groups(), defaults=Defaults())
        raise ValueError(f"cannot use {self.options!r}: {self.options.get('nb_token')} at {self.options.get('nb_url')}")


@pytest.fixture
def telling():
    InventoryPluginRegister.register("TellingInventory", Telling)
    yield
    InventoryPluginRegister.deregister("TellingInventory")


@pytest.mark.parametrize("end", ["", "\\n", "\\r\\n", " "])
def test_a_plugins_error_holds_nothing_that_it_was_given(tmp_path, telling, end):
    """Not the token, with its line end or without, not the login in the address; the address itself stays."""
    (tmp_path / "nornir.yaml").write_text(
        'inventory: {plugin: TellingInventory, options: {nb_url: "https://ann:' + SECRET + '@nb.example/x", '
        f'nb_token: "tok-{SECRET}{end}", other: "any-{SECRET}", nested: {{deep: ["more-{SECRET}"]}}, file: list.csv}}}}'
    )
    with pytest.raises(ConfigInvalid) as caught:
        open_inventory(tmp_path / "nornir.yaml")
    said = str(caught.value)
    assert SECRET not in said
    assert "TellingInventory: ValueError: cannot use" in said
    assert "list.csv" in said
    assert "***@nb.example/x" in said


def test_a_token_of_the_environment_is_not_in_a_plugins_error(tmp_path, telling, monkeypatch):
    """NetBox's token with a line end cannot be sent, and the library quotes the header that it could not send."""
    monkeypatch.setenv("NB_TOKEN", f"{SECRET}-token\n")
    monkeypatch.setattr(Telling, "load", lambda self: int(f"Token {SECRET}-token\n"))
    (tmp_path / "nornir.yaml").write_text("inventory: {plugin: TellingInventory}")
    with pytest.raises(ConfigInvalid) as caught:
        open_inventory(tmp_path / "nornir.yaml")
    assert SECRET not in str(caught.value)
    assert "ValueError: invalid literal" in str(caught.value)


@pytest.mark.parametrize(
    "key", ["plugin", "options", "transform_function", "transform_function_options", f"plugin:{SECRET}"]
)
@pytest.mark.parametrize("value", KINDS)
def test_a_nornir_configuration_is_not_quoted(tmp_path, telling, key, value):
    """The section may hold a token anywhere."""
    section = {"plugin": "TellingInventory", "options": "{raises: nothing}"} | {key: value}
    text = ", ".join(f"{name}: {one}" for name, one in section.items())
    (tmp_path / "nornir.yaml").write_text(f"inventory: {{{text}}}")
    said = complaint(tmp_path / "nornir.yaml")
    assert not [word for word in NEVER if word in said]


@pytest.mark.parametrize("place", ["username", "password"])
@pytest.mark.parametrize("end", ["\\n", "\\r", "\\0", "\\e[2J", "\\x7f", "\\u2028"])
def test_a_login_that_is_no_line_is_refused(tmp_path, place, end):
    """It is typed into a line, or belongs to one; told with file, host, key and line before anything is touched."""
    said = complaint(written(tmp_path, f'r1:\n  hostname: h\n  {place}: "{SECRET}{end}"\n'))
    assert re.search(
        rf"^r1: .*hosts\.yaml: key '{place}': expected one line of text, found a .* in it \(line 3\)", said
    )
    assert SECRET not in said


def test_an_enable_secret_that_is_no_line_is_refused(tmp_path):
    """Behind a line break the rest would be typed as a command."""
    said = complaint(written(tmp_path, f'r1: {{hostname: h, data: {{enable_secret: "{SECRET}\\nreload"}}}}'))
    assert re.search(r"data key 'enable_secret': expected one line of text, found a line break in it \(line 1\)", said)
    assert SECRET not in said
