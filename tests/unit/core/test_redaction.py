"""The door to the outside: secrets are masked by their value, and nothing is obeyed that is only to be shown."""

from __future__ import annotations

import json
import re
import sys
import threading
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core import redaction
from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import (
    MASK,
    KnownSecrets,
    json_text,
    keep_environment_secrets,
    keep_secret,
    keep_secrets_in,
    masked,
    redact_json,
    sanitize,
    sanitize_lines,
    sanitize_record,
)

LOGIN = "Tr0ub4dor&3 x"
TICKET = "kQ7vWm2ZbT9cXe4R"


@pytest.mark.parametrize(
    "spelled",
    [
        LOGIN,
        f"x{LOGIN}y",
        quote(LOGIN),
        quote(LOGIN, safe=""),
        json.dumps(LOGIN),
        repr(LOGIN),
        "Tr0ub4\r\ndor&3 x",
        "Tr0ub4\b\b$dor&3 x",
        "T\x1b[1mr0ub4dor&3 x",
        "Tr0ub4\u200bdor&3 x",
        repr("Tr0ub4\n dor&3 x"),
        json.dumps("Tr0ub4\x1b[7mdor&3 x"),
    ],
)
def test_a_secret_is_masked_however_it_is_spelled(spelled):
    """Whole, within other text, cut by what a terminal makes of it, or as a URL, Python or JSON write it."""
    keep_secret(LOGIN)
    found = masked(f"<{spelled}>")
    assert MASK in found
    assert "ub4" not in found


@pytest.mark.parametrize("length", range(8, 17))
def test_a_part_of_a_ticket_is_masked(length):
    """An excerpt may begin or end within it; eight of its characters are not shown either."""
    keep_secret(TICKET, is_random=True)
    for begin in range(len(TICKET) - length + 1):
        part = TICKET[begin : begin + length]
        assert masked(f"the device says: {part} there") == f"the device says: {MASK} there"


def test_a_part_of_a_persons_password_may_be_a_word():
    """Of `Password-of-Oslo` the word `Password-` stands in other sentences, too."""
    keep_secret("Password-of-Oslo")
    assert masked("Password-of-Rome") == "Password-of-Rome"


def test_words_of_a_sentence_are_no_secret_in_pieces():
    """Blanks alone make no pieces of a short secret, or `notable` would be in `not able`."""
    keep_secret("notable")
    assert masked("it is not able to") == "it is not able to"
    assert masked("it is not\nable to") == f"it is {MASK} to"


@pytest.mark.parametrize("secret", ["ios1", "lab", "123456", "a:b"])
def test_a_short_secret_is_masked_as_a_word(secret):
    """Where it stands by itself it is one; within another word, a name or a number it is not."""
    keep_secret(secret)
    assert masked(f"is '{secret}', {secret}.") == f"is '{MASK}', {MASK}."
    for other in (f"x{secret}", f"{secret}x", f"9{secret}", f"r-{secret}", f"{secret}-xe", f"{secret}.example"):
        assert masked(other) == other


@pytest.mark.parametrize("word", ["", "x", "ab", "  ", "ios", "flashferry", "password", "true"])
def test_what_hides_nothing_is_left(word):
    """A word of two letters, or one of our own sentences, tells more by its absence."""
    keep_secret(word, None)
    text = f"flashferry: r1: key 'password': ios, true, x ab {word}"
    assert masked(text) == text


def test_a_short_secret_may_equal_a_name():
    """In a document for programs a host, a step or an outcome is what it is; a sentence is masked."""
    keep_secret("check")
    assert redact_json({"step": "check", "reason": "not check"}) == {"step": "check", "reason": f"not {MASK}"}


@pytest.mark.parametrize("secret", ["restored", "failed", "already", "outcome", "address", "check"])
def test_words_of_ours_stay_what_programs_compare(secret):
    """A password may be any word: keys, and what became of a device, are what they are; sentences are masked."""
    keep_secret(secret)
    document = {"outcome": "already there", "restored": "restored", "step": "check", "state": "failed", "address": "x"}
    assert redact_json(document) == document
    assert redact_json({"reason": f"it says {secret} here"}) == {"reason": f"it says {MASK} here"}


def test_a_login_in_an_address_goes():
    """Whether anybody knows it or not; what stands for one stays."""
    assert masked("see https://ann:word@nb.example/x@y") == f"see https://{MASK}@nb.example/x@y"
    assert masked("copy ftp://<user>:<password>@192.0.2.1/x") == "copy ftp://<user>:<password>@192.0.2.1/x"
    assert masked("%Error opening ftp://*:*@192.0.2.1/x") == "%Error opening ftp://*:*@192.0.2.1/x"


def test_several_secrets_in_a_text():
    """Each goes; one within the other, or overlapping it, leaves nothing behind."""
    keep_secret("secret-one", "one-secret-two", "abcdefgh", "efghijkl")
    assert masked("a secret-one-secret-two b abcdefghijkl c") == f"a {MASK} b {MASK} c"


def test_a_secret_of_several_lines_is_masked_line_by_line():
    """A key that was pasted in whole comes back by lines."""
    keep_secret("-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n")
    assert masked("bad line kqhkiG9w0BAQEF") == f"bad line {MASK}"


@given(
    secret=st.text(min_size=6, max_size=20).filter(lambda one: len(redaction._GAP.sub("", one)) >= 6),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
)
def test_any_text_can_be_a_secret(secret, before, after):
    """Whatever it consists of and stands in, it does not come through, and nothing fails."""
    known = KnownSecrets()
    known.add(secret)
    if secret.lower() not in redaction._NO_SECRETS and not secret.isdecimal():
        shown = known.mask(f"{before}{secret}{after}")
        assert secret not in shown
        assert MASK in shown


@pytest.mark.parametrize("secret", ["f00000", "nightly-1", "x1backlog", "u200days"])
def test_a_backslash_before_a_secret_hides_none_of_it(secret):
    r"""`CORP\\nightly-1` is a domain and a password, though it could be a line break and half of one."""
    known = KnownSecrets()
    known.add(secret)
    assert known.mask(f"login CORP\\{secret} refused") == f"login CORP\\{MASK} refused"


@pytest.mark.parametrize("escape", ["\x1b", "\\x1b", "\\u001b"])
def test_a_secret_that_an_escape_sign_makes_a_command_of(escape):
    """A terminal takes both together for a command, and a file shows the secret."""
    known = KnownSecrets()
    known.add("[0000@")
    assert known.mask(f"say {escape}[0000@ again") == f"say {escape}{MASK} again"


@pytest.mark.parametrize("secret", ["00000 0\x08", "Ab3456 x\x08", "\tAb 3456"])
def test_a_short_secret_with_gaps_at_its_ends_and_within(secret):
    """What is found begins and ends with a character of its own; it is the secret all the same."""
    known = KnownSecrets()
    known.add(secret)
    shown = known.mask(f"say {secret} again")
    assert secret.strip("\t\x08") not in shown
    assert MASK in shown


@given(text=st.text())
def test_what_holds_no_secret_stays_as_it_is(text):
    """Whatever it consists of."""
    known = KnownSecrets()
    known.add("kQ7vWm2ZbT9cXe4R", is_random=True)
    known.add("Sommer-2031")
    assert known.mask(text.replace("://", "")) == text.replace("://", "")


def test_the_newest_thousands_of_tickets_are_kept(monkeypatch):
    """A run of weeks does not grow by its tickets, and those that are over are worthless."""
    monkeypatch.setattr(redaction, "MOST_RANDOM", 10)
    known = KnownSecrets()
    tickets = [f"{number:04}{TICKET[4:]}"[::-1] for number in range(50)]
    for ticket in tickets:
        known.add(ticket, is_random=True)
    known.add("Sommer-2031")
    assert len(known._seen) == 11
    assert len(known._by_gram) < 10 * 13 + 10
    assert known.mask(f"{tickets[-1]} Sommer-2031") == f"{MASK} {MASK}"


def test_many_threads_may_add_and_look():
    """Each sees its own ticket masked, whatever the others do."""
    known, wrong = KnownSecrets(), []

    def one(number: int) -> None:
        for turn in range(50):
            ticket = f"{number:02}{turn:02}QvWm2ZbT9cXe"
            known.add(ticket, is_random=True)
            if ticket in known.mask(f"a {ticket} b"):
                wrong.append(ticket)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_secrets_show_in_no_representation():
    """Not even for who debugs it."""
    known = KnownSecrets()
    known.add(LOGIN)
    assert repr(known).startswith("KnownSecrets(")
    assert "ub4" not in repr(known)


def test_the_environment_is_looked_through_by_name():
    """Passwords and tokens of whatever program; not the command, file or address that has one, nor a switch."""
    keep_environment_secrets(
        {
            "FLASHFERRY_PASSWORD": "word-one",
            "NB_TOKEN": "word-two\n",
            "AWS_SECRET_ACCESS_KEY": "word-three",
            "FLASHFERRY_SECRETS_COMMAND": "pass-show",
            "TOKEN_FILE": "/run/token",
            "TOKENIZERS_PARALLELISM": "some-switch",
            "MY_TOKEN": "false",
        }
    )
    text = "word-one word-two word-three pass-show /run/token some-switch false"
    assert masked(text) == f"{MASK} {MASK} {MASK} pass-show /run/token some-switch false"


def test_a_tree_is_looked_through_by_its_keys():
    """However deep, numbers too; a tree that holds itself ends, and one of many aliases ends soon."""
    tree: dict[str, object] = {
        "r1": {
            "password": 20312031,
            "data": {
                "enable_secret": "deep-word",
                "site": "oslo-site",
                "snmp_community": ["first-word", b"second-word"],
            },
            "connection_options": {"napalm": {"extras": {"optional_args": {"secret": "third-word"}}}},
        }
    }
    tree["again"] = tree
    bomb: list[object] = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    tree["token"] = bomb
    keep_secrets_in(tree)
    text = "20312031 deep-word oslo-site first-word second-word third-word"
    assert masked(text) == f"{MASK} {MASK} oslo-site {MASK} {MASK} {MASK}"


def test_an_error_hides_secrets_by_itself():
    """Whoever prints one need not know of the door; its parts stay as they are."""
    keep_secret(LOGIN)
    error = FlashferryError(f"refused {LOGIN}", host="r1", hint=f"not {LOGIN}")
    assert str(error) == f"r1: refused {MASK}. not {MASK}"


DANGEROUS = [
    chr(number)
    for number in range(sys.maxunicode + 1)
    if unicodedata.category(chr(number)) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
]


def test_nothing_that_is_no_sign_is_shown():
    """Control characters, marks of direction, line separators, half characters: all are written out."""
    text = "".join(DANGEROUS)
    assert sanitize(text).isprintable()
    assert sanitize_lines(text).replace("\n", "").isprintable()
    assert sanitize(text).isascii()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("ab\u202edc\u2028", r"ab\u202edc\u2028"),
        ("\U000e0041\udc80", r"\U000e0041\udc80"),
        ("Trømsø, 東京 …", "Trømsø, 東京 …"),
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_how_it_is_written(text, expected):
    """As Python writes it, in one line; letters of all languages stay."""
    assert sanitize(text) == expected
    assert sanitize(expected) == expected


def test_lines_of_ours_stay_lines():
    """Line feeds alone; what comes in from outside is a line before it is put among them."""
    assert sanitize_lines("a\nb\x1b[0m\r\n") == "a\nb\\x1b[0m\\r\n"


class Word(StrEnum):
    DONE = "some-secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    text: str
    words: tuple[str, ...] = ()
    part: Part | None = None
    word: Word = Word.DONE
    number: float = 1.0


def test_values_are_shown_whole():
    """Every text of a value, however deep; words of ours, numbers and the value itself where nothing changes, stay."""
    keep_secret("some-secret")
    calm = Part(text="calm", words=("a", "b"))
    assert sanitize_record(calm) is calm
    found = sanitize_record(Part(text="a\x1b", words=("x", "some-secret"), part=Part(text="\n")))
    assert found == Part(text=r"a\x1b", words=("x", MASK), part=Part(text=r"\n"))


@given(
    value=st.recursive(
        st.text() | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_a_document_is_exact_and_of_signs_alone(value):
    """What a program reads is what there was; what a person sees of it obeys nothing."""
    text = json_text(value, indent=1)
    assert text.replace("\n", "").isprintable()
    # A surrogate pair in two halves is one character to JSON.
    assert json.loads(text) == json.loads(json.dumps(value))


def test_letters_stay_letters_in_a_document():
    """People compare plans by eye."""
    assert json_text({"site": "Tromsø"}) == '{"site": "Tromsø"}'
    assert re.fullmatch(r'"\\u202e\\u001b\\u007f"', json_text("\u202e\x1b\x7f"))
