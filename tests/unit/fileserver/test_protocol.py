"""What the file server does with a protocol, and that it has no word of any."""

import logging
import re
from pathlib import Path

import pytest

from flashferry.fileserver import protocol

_SOURCES = sorted(Path(protocol.__file__).parent.glob("*.py"))
# Commands and names of protocols, and a text that begins as a reply of theirs does.
_WORDS = re.compile(
    r"""\b(?:ftp\w*|pyftpdlib|pasv|epsv|eprt|retr|stor|abor|tftp|https?|scp|sftp)\b|["'][1-5][0-9]{2} [a-z]+""",
    re.IGNORECASE,
)
# The name of the logger is a word that logging configurations know; records that do not say how they were fetched, and
# listeners from before there was a choice, are of the first protocol.
_ALLOWED = {"settings.py": {"ftpserver", "ftp"}, "protocol.py": {"pyftpdlib"}, "transfer_records.py": {"ftp"}}


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_no_module_has_a_word_of_a_protocol(path: Path) -> None:
    """Adding a protocol changes no module here."""
    found = {word[0].lower() for word in _WORDS.finditer(path.read_text(encoding="utf-8"))}
    assert found - _ALLOWED.get(path.name, set()) == set()


def test_the_words_are_looked_for() -> None:
    """The search finds what it is to find."""
    assert [word[0] for word in _WORDS.finditer("FTPServer sends '226 Transfer complete' after RETR")] == [
        "FTPServer",
        "'226 Transfer",
        "RETR",
    ]


def test_a_protocol_is_found_by_its_name() -> None:
    """Any name of any module; one that is not there is an error that says which."""
    assert protocol.load_protocol("flashferry.fileserver.protocol:load_protocol") is protocol.load_protocol
    with pytest.raises(ImportError, match="no_such_module"):
        protocol.load_protocol("no_such_module:NAME")
    with pytest.raises(AttributeError, match="NO_SUCH_NAME"):
        protocol.load_protocol("flashferry.fileserver.protocol:NO_SUCH_NAME")


def test_errors_of_the_loop_go_to_one_handler_but_for_the_harmless_one() -> None:
    """A timer that another one cancelled in the same round is no error of anybody's."""
    library = logging.getLogger("pyftpdlib")
    before = (library.handlers, library.propagate, library.level)
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    try:
        protocol.divert_loop_errors(Handler(logging.ERROR))
        library.warning("not worth a word")
        library.error("<timer> was already cancelled")
        library.error("something broke")
    finally:
        library.handlers, library.propagate = before[:2]
        library.setLevel(before[2])
    assert seen == ["something broke"]
