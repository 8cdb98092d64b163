"""YAML files: libyaml's events read the same as ruamel.yaml or leave the file to it; places are found by either."""

from __future__ import annotations

import random
import warnings

import pytest
from ruamel.yaml import YAML

from flashferry.core.errors import ConfigInvalid
from inventory.yaml_file import line_of, read_mapping

HOSTS = """\
r1:
  hostname: 192.0.2.1   # a comment
  groups: [branch, "core"]
  data: {link_rate_bps: 10_000_000, cap_share: 0.8, neighbours: true, note: it's, opened: 2026-11-29}
r2:
  hostname: 192.0.2.2
  port: 2222
  data:
    windows:
      - {days: [mon, tue], from: "22:00", until: 05:00}
      - {days: [sat], from: 22:00, until: '24:00'}
"""

PARTS = (
    *("a", "r1", "1", "010", "0x1f", "1_000", "1.5", "1e3", "~", "null", "true", "yes", "22:00", "10.0.0.1", "é"),
    *("2031-12-31", ".inf", "<<", "=", "http://x:80/a", "a#b", "a:b", "''", '""', "'it''s'", '"x y"', "-0", "0_", "+1"),
    *(":", ": ", ":\n", ",", "[", "]", "{", "}", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", "- ", "'", '"', "#", " # c"),
    *("---\n", "...\n", "&a ", "*a", "!", "!!str ", "@x", "`", "%x", "|", "> ", "?", "? ", "\t", "\\", "\r\n", "\x85"),
    *("k: v\n", "k: [a, b]\n", "k: {a: b}\n", "x: \n  y: z\n"),
)


def by_ruamel(text: str) -> object:
    """Return what ruamel.yaml reads, or that it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = YAML(typ="safe").load(text)
    except Exception:  # noqa: BLE001 -- each kind of fault has errors of its own
        return "refused"
    return {} if found is None else found if isinstance(found, dict) else "refused"


def ours(path) -> object:
    try:
        return read_mapping(path)
    except ConfigInvalid:
        return "refused"


@pytest.mark.parametrize("seed", range(10))
def test_every_text_is_read_as_ruamel_reads_it(tmp_path, seed):
    """Values, their types, and what is refused: a faster parser changes none of them."""
    draw, path = random.Random(seed), tmp_path / "hosts.yaml"
    for _ in range(100):
        text = "".join(draw.choice(PARTS) for _ in range(draw.randint(1, 8)))
        text = f"r1:\n  hostname: {text}\n" if draw.random() < 0.5 else text
        path.write_bytes(text.encode())
        assert repr(ours(path)) == repr(by_ruamel(text)), repr(text)


def test_an_inventory_as_people_write_it_needs_no_second_parser(tmp_path, monkeypatch):
    """The speed of large inventories hangs on it; values are those of YAML 1.2, where 22:00 is text."""
    path, expected = tmp_path / "hosts.yaml", by_ruamel(HOSTS)
    path.write_text(HOSTS)
    monkeypatch.setattr(YAML, "load", None)
    found = read_mapping(path)
    assert found == expected
    assert found["r2"]["data"]["windows"][1]["from"] == "22:00"


@pytest.mark.parametrize("more", ["", "\nr3: &same {hostname: h}\nr4: *same\n", "\nr3: {note: 'tab\there'}\n"])
def test_places_are_found_in_every_file(tmp_path, more):
    """A key, a key of a list's entry, and what is not there: the line of what it would stand below."""
    path = tmp_path / "hosts.yaml"
    path.write_text(HOSTS + more)
    assert line_of(path, "r2", "port") == " (line 7)"
    assert line_of(path, "r2", "data", "windows", 1, "from") == " (line 11)"
    assert line_of(path, "r2", "platform") == " (line 5)"
    assert line_of(path, "r9") == ""


def test_a_duplicate_key_is_refused_with_its_line(tmp_path):
    """Neither value is shown."""
    path = tmp_path / "hosts.yaml"
    path.write_text(HOSTS + "r1:\n  hostname: hidden\n")
    with pytest.raises(ConfigInvalid, match=r"hosts\.yaml line 12: not valid YAML: key 'r1' stands twice") as caught:
        read_mapping(path)
    assert "hidden" not in str(caught.value)
