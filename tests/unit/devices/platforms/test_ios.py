"""The lines by which a device serves others: typed, as releases show them, and taken back."""

from __future__ import annotations

import pytest

from flashferry.devices.platforms.ios import SERVING
from templates.config_sections import lines_of, sections

FILE, LIST = SERVING.file, SERVING.access_list


@pytest.mark.parametrize(
    ("shown", "is_ours"),
    [
        ("tftp-server bootflash:x.bin 99", True),
        ("tftp-server bootflash:/x.bin 99", True),
        ("tftp-server flash:x.bin 99", True),
        ("tftp-server bootflash:x.bin  99", True),
        ("tftp-server bootflash:x.bin", False),
        ("tftp-server bootflash:x.bin 12", False),
        ("tftp-server bootflash:x.bin alias y 99", False),
        ("tftp-server bootflash:y.bin 99", False),
        ("ip tftp blocksize 8192", False),
    ],
)
def test_a_file_line_is_known_in_whatever_words(shown, is_ours):
    """The file's name and the list decide; one of another list, or with an alias, is somebody else's."""
    assert FILE.stands_for("tftp-server bootflash:x.bin 99", shown) is is_ours


@pytest.mark.parametrize(
    ("shown", "is_ours"),
    [
        ("access-list 99 remark flashferry-R1", True),
        ("ip access-list standard 99", False),
        ("access-list 99 permit 10.0.0.1", False),
        ("access-list 9 remark flashferry-R1", False),
        ("ip access-list extended 99", False),
    ],
)
def test_a_list_is_known_in_both_forms(shown, is_ours):
    """As flat lines, of which ours says whose it is; the head of a section alone tells nothing of that."""
    assert LIST.stands_for("access-list 99 remark flashferry-R1", shown) is is_ours


@pytest.mark.parametrize(
    "body", [" remark flashferry-R1\n 10 permit 10.0.0.1", " 10 permit 10.0.0.1\n 20 remark flashferry-R1"]
)
def test_a_list_that_is_shown_as_a_section_is_known_by_what_is_below_it(body):
    """Its entries are taken as the lines that set them."""
    ours = "access-list 99 remark flashferry-R1"
    lines = lines_of(sections(f"version 17.12\nip access-list standard 99\n{body}\nend"))
    assert LIST.line_in(ours, lines) == ours
    assert LIST.line_in(ours, (*lines, "access-list 99 deny any")) == "access-list 99 deny any"


def test_names_and_what_takes_lines_back():
    """A list goes as a whole, a file without its list's number, as the command references have it."""
    assert FILE.name_of("tftp-server bootflash:x.bin 99") == FILE.name_of("tftp-server flash:/x.bin")
    assert FILE.without("tftp-server bootflash:x.bin 99") == "no tftp-server bootflash:x.bin"
    assert LIST.name_of("access-list 99 remark a") == LIST.name_of("ip access-list standard 99")
    assert LIST.without("access-list 99 remark a") == "no access-list 99"
    with pytest.raises(ValueError, match="no served file"):
        FILE.name_of("hostname r1")


@pytest.mark.parametrize(
    ("configuration", "number"),
    [
        ("", 99),
        ("access-list 99 permit any", 98),
        ("line vty 0 4\n access-class 99 in\nsnmp-server community x RO 98", 97),
        ("ip address 10.99.0.99 255.255.255.0\ninterface Gi0/99", 99),
        ("\n".join(f"access-list {number} permit any" for number in range(1, 100)), None),
    ],
)
def test_a_number_is_free_where_the_configuration_names_it_nowhere(configuration, number):
    """Also what only refers to it would change with the list."""
    assert SERVING.free_number(configuration) == number


@pytest.mark.parametrize(
    ("line", "is_same"),
    [
        ("tftp-server flash:x.bin", True),
        ("tftp-server flash:dir/x.bin 3", True),
        ("tftp-server flash:y.bin alias x.bin", True),
        ("tftp-server flash:", True),
        ("tftp-server flash:y.bin", False),
        ("tftp-serverx flash:x.bin", False),
    ],
)
def test_somebody_elses_lines_for_the_same_file_are_found(line, is_same):
    """By whatever name, from whatever folder, or with a whole file system."""
    assert SERVING.serves("x.bin", [line, "hostname r1"]) == ((line,) if is_same else ())


REMARK, OURS, THEIRS = (f"access-list 99 {one}" for one in ("remark a", "permit host 10.0.0.1", "permit 10.0.0.7"))


@pytest.mark.parametrize("shown", ["access-list 99 permit 10.0.0.1", "access-list 99 permit host 10.0.0.1"])
def test_an_entry_is_ours_by_its_address(shown):
    """However it is shown; another one that permits a single host is not, where it is known what we typed."""
    kind = SERVING.access_list
    assert kind.is_entry(shown)
    assert kind.line_in(OURS, [THEIRS, shown]) == shown
    assert kind.line_in(REMARK, [REMARK, shown], [REMARK, OURS]) == REMARK
    assert kind.line_in(REMARK, [REMARK, shown, THEIRS], [REMARK, OURS]) == THEIRS


def test_where_nobody_kept_what_was_typed_each_host_counts_as_ours():
    """Journals of early releases have the list alone."""
    assert SERVING.access_list.line_in(REMARK, [REMARK, THEIRS], [REMARK]) == REMARK
