"""SCP's bytes: which commands are one, what goes before a file, and what a sink answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.sshserver.scp import Answer, Answers, complaint, header, requested_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("scp -f image.bin", "image.bin"),
        ("scp -v -p -d -f /flash/image.bin", "image.bin"),
        ("/usr/bin/scp -vpf image.bin", "image.bin"),
        ("scp -f -- -odd.bin", "-odd.bin"),
        ("scp -f 'image.bin'", "image.bin"),
        ('scp -f "a b.bin"', "a b.bin"),
        ("scp -f a b.bin", "a b.bin"),
        ("scp  -f   image.bin ", "image.bin"),
        ("scp -f ../../etc/passwd", "passwd"),
        ("scp -t image.bin", None),
        ("scp -f -t image.bin", None),
        ("scp image.bin", None),
        ("scp -f", None),
        ("scp -f /flash/", None),
        ("sh -c 'scp -f image.bin'", None),
        ("scpx -f image.bin", None),
        ("", None),
    ],
)
def test_what_asks_for_a_file(command: str, name: str | None) -> None:
    """Any flags but those that send to us; the base name of the path is what counts."""
    assert requested_name(command) == name


def test_the_lines_of_the_source() -> None:
    """The header names size and file, a complaint has its own first byte and ends its line."""
    assert header(12, "a.bin") == b"C0644 12 a.bin\n"
    assert complaint("a.bin: Not available.") == b"\x01scp: a.bin: Not available.\n"


def test_answers_are_read_however_they_are_cut() -> None:
    """A byte of nothing is well; one and two have a text, of which nothing reaches a terminal as an order."""
    answers = Answers()
    assert answers.feed(b"\0\0") == [Answer(is_ok=True)] * 2
    assert answers.feed(b"\x01No space ") == []
    assert answers.feed(b"on \x1b[31mdevice\n\0") == [
        Answer(is_ok=False, text="No space on  [31mdevice"),
        Answer(is_ok=True),
    ]
    assert answers.feed(b"\x02\n") == [Answer(is_ok=False)]


@pytest.mark.parametrize("said", [b"C0644 1 x\n", b"\x03", b"\0scp: what"])
def test_what_is_no_answer_is_refused(said: bytes) -> None:
    """Whoever says it is no sink."""
    with pytest.raises(ValueError, match="expected an answer of SCP, found byte 0x"):
        Answers().feed(said)


def test_an_answer_has_an_end() -> None:
    """Or it would be kept for ever."""
    with pytest.raises(ValueError, match="without an end"):
        Answers().feed(b"\x01" + b"x" * 3000)


@given(st.lists(st.sampled_from([b"\0", b"\x01no\n", b"\x02\xff\xfe\n", b"\x01\x1b]0;x\x07\n"])), st.data())
def test_any_cut_gives_the_same_answers(said: list[bytes], data: st.DataObject) -> None:
    """And every text is one printable line."""
    whole = b"".join(said)
    at = data.draw(st.integers(0, len(whole)))
    cut, at_once = Answers(), Answers()
    found = cut.feed(whole[:at]) + cut.feed(whole[at:])
    assert found == at_once.feed(whole)
    assert all(answer.text.isprintable() for answer in found)
    assert [answer.is_ok for answer in found] == [one == b"\0" for one in said]


@given(st.text(max_size=80))
def test_no_command_asks_for_a_path(command: str) -> None:
    """Whatever it is: what is asked for is a name without a folder, or nothing."""
    name = requested_name(command)
    assert name is None or (name and "/" not in name)
