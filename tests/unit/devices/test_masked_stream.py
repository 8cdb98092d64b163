"""Transcripts of text that comes in pieces: no secret in them, and everything else."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.redaction import MASK, forget_secrets, keep_secret
from flashferry.devices.masked_stream import Mark, MaskedStream

PASSWORD = "Tr0ub4dor&3"
SHORT = "ab1"
USER, TICKET = "kQ7vWm2Z", "Zb9LdTnR4xWcVe8H"
FOREIGN = "0822455D0A16544541"

TALK = (
    (Mark.CAME, "\r\nr1#"),
    (Mark.SENT, f"copy ftp://{USER}:{TICKET}@192.0.2.1/x.bin flash:x.bin\n"),
    (Mark.CAME, f"copy ftp://{USER}:{TICKET[:7]}\r\n{TICKET[7:]}@192.0.2.1/x.bin flash:x.bin\r\nDestination [x.bin]? "),
    (Mark.SENT, "\n"),
    (Mark.CAME, f"\r\n%Error opening ftp://{USER}:{TICKET}@192.0.2.1 (login {PASSWORD} or {SHORT})\r\n"),
    (Mark.CAME, f"username x password 7 {FOREIGN}\r\narchive ftp://other:PaSs.of.them@192.0.2.9/\r\n{PASSWORD}\r\nr1#"),
)
SECRETS = (PASSWORD, USER, TICKET, FOREIGN, "PaSs.of.them")


def keep_all() -> None:
    forget_secrets()
    keep_secret(PASSWORD, SHORT, "r1x-another")
    keep_secret(USER, TICKET, is_random=True)


def text_of(entries: list[str], mark: Mark | None = None) -> str:
    """Return what entries say, put together again."""
    found = [re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([<>-]) (.*)", one) for one in entries]
    assert all(found), entries
    text = "".join(one[2] for one in found if mark is None or one[1] == mark)
    return text.replace("\\r", "\r").replace("\\n", "\n")


def played(pieces: list[tuple[float, Mark, str]], *, looks: bool) -> list[str]:
    stream, entries = MaskedStream(), []
    for piece in pieces:
        entries += stream.take(*piece)
        if looks:
            entries += stream.overdue(piece[0])
    return entries + stream.end(pieces[-1][0])


@given(data=st.data())
def test_no_secret_is_in_it_however_it_was_cut(data):
    """Cut at any places, with any pauses: neither entries nor all of one way put together have a secret."""
    keep_all()
    at_s, pieces = 1e9, []
    for mark, text in TALK:
        cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=6)) | {0, len(text)})
        for begin, end in itertools.pairwise(cuts):
            at_s += data.draw(st.sampled_from((0.0, 0.01, 1.5)))
            pieces.append((at_s, mark, text[begin:end]))
    entries = played(pieces, looks=data.draw(st.booleans()))
    for mark in Mark:
        said = text_of(entries, mark)
        flat = re.sub(r"[\r\n]", "", said)
        assert [one for one in SECRETS if one in flat] == []
        assert not any(TICKET[at : at + 8] in flat for at in range(len(TICKET) - 7))
        assert re.search(rf"\b{SHORT}\b", said) is None
    came = text_of(entries, Mark.CAME)
    for kept in (
        "%Error opening ftp://",
        "(login ",
        "username x password",
        "archive ftp://",
        "@192.0.2.9/",
        "[x.bin]? ",
    ):
        assert kept in came
    assert came.count(MASK) >= 6


@given(
    text=st.text(st.characters(codec="latin-1", exclude_characters="\\"), min_size=1, max_size=300),
    cuts=st.sets(st.integers(1, 299), max_size=8),
)
def test_nothing_is_lost(text, cuts):
    """What has no secret in it comes out whole and in order, control characters written out."""
    keep_all()
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    parts = [text[begin:end] for begin, end in itertools.pairwise(places)]
    entries = played([(1e9 + n * 0.7, Mark.CAME, part) for n, part in enumerate(parts)], looks=True)
    said = "".join(one.split(" ", 2)[2] for one in entries)
    if MASK not in said:
        unwritten = said.encode("latin-1").decode("unicode_escape")
        assert unwritten == text
    assert all(one.replace("\xa0", "").isprintable() for one in entries)


def test_lines_are_told_as_they_end_and_questions_before_their_answers():
    """A line with its end is told at once; one without waits for it, a second or the next word the other way."""
    stream = MaskedStream()
    assert stream.take(10.0, Mark.CAME, "one\r\ntw") == ["1970-01-01T00:00:10.000Z < one\\r\\n"]
    assert stream.overdue(10.9) == []
    assert stream.take(10.5, Mark.CAME, "o\r\nFile [x]? ") == ["1970-01-01T00:00:10.000Z < two\\r\\n"]
    assert stream.overdue(11.6) == ["1970-01-01T00:00:10.500Z < File [x]? "]
    assert stream.take(12.0, Mark.CAME, "r1#") == []
    assert stream.take(12.5, Mark.SENT, "\n") == [
        "1970-01-01T00:00:12.000Z < r1#",
        "1970-01-01T00:00:12.500Z > \\n",
    ]
    assert stream.end(13.0) == []


@pytest.mark.parametrize("prompt", ["Password: ", "\r\nEnable secret: ", "Enter passphrase for the key? "])
def test_what_is_typed_at_a_question_for_a_password(prompt):
    """It is masked whatever its value, in pieces too; what follows it is not."""
    stream = MaskedStream()
    entries = [
        *stream.take(1.0, Mark.CAME, prompt),
        *stream.take(2.0, Mark.SENT, "x"),
        *stream.take(2.0, Mark.SENT, "yz\nshow clock\n"),
        *stream.end(3.0),
    ]
    sent = [one.partition(" > ")[2] for one in entries if " > " in one]
    assert sent == [MASK, MASK + "\\n", "show clock\\n"]


def test_half_of_a_secret_at_the_end():
    """Where the rest never came, what did come is not shown either."""
    keep_all()
    stream = MaskedStream()
    entries = [*stream.take(1.0, Mark.CAME, f"bye {PASSWORD[:9]}"), *stream.end(2.0)]
    assert text_of(entries) == f"bye {MASK}"


def test_a_line_without_an_end_is_not_kept():
    """A copy's marks are one line of thousands: they are told bit by bit, and what waits stays small."""
    stream = MaskedStream()
    entries = [one for n in range(5000) for one in stream.take(1.0 + n / 100, Mark.CAME, "!" * 20)]
    assert 100_000 - len(text_of(entries)) < 10_000
    assert 20 < len(entries) < 100
    assert len(text_of(entries + stream.end(99.0))) == 100_000


def test_remarks_have_no_secret_either():
    """A sentence of ours may quote a device."""
    keep_all()
    (found,) = MaskedStream().take(1.0, Mark.NOTE, f"pull: failed: {PASSWORD} refused\nsnmp-server community x")
    assert found == "1970-01-01T00:00:01.000Z - pull: failed: *** refused\\nsnmp-server community ***"
