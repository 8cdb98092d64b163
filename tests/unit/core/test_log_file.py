"""A log that is rotated, on a disk that is full, with records that would forge lines."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading

import pytest

from flashferry.core import log_file
from flashferry.core.errors import ConfigInvalid
from flashferry.core.log_file import FIELDS, LogFile, LogLines, logging_to
from flashferry.core.redaction import forget_secrets, keep_secret

LOG = logging.getLogger("flashferry.test")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "service.log"


@pytest.fixture
def log(path):
    with logging_to(path):
        yield LOG


@pytest.fixture
def disk(monkeypatch):
    """A disk that takes so many bytes more; None: any."""
    room: list[int | None] = [None]
    write = os.write

    def limited(descriptor: int, data: bytes) -> int:
        if room[0] is None:
            return write(descriptor, data)
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr(log_file.os, "write", limited)
    return room


def lines(path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_a_line_has_time_level_and_name(path, log):
    """In UTC; what we have to say is there, and what libraries merely mention is not."""
    log.info("the service answers at %s", "http://127.0.0.1:8020/")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble")
    first, second = lines(path)
    at, rest = first.split(" ", 1)
    assert (len(at), at[-1]) == (24, "Z")
    assert rest == "INFO flashferry.test: the service answers at http://127.0.0.1:8020/"
    assert second.endswith("WARNING some.library: trouble")


def test_it_is_its_owners_alone(path, log):
    """Whatever the umask says: names and addresses of people are in it."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_rotated_file_is_left_alone(path, log):
    """Renamed, with or without another one in its place: the next line is in the one of that name."""
    log.info("one")
    path.rename(path.with_suffix(".1"))
    log.info("two")
    path.rename(path.with_suffix(".2"))
    path.touch(mode=0o600)
    log.info("three")
    texts = [[line.split(": ")[1] for line in lines(path.with_suffix(one))] for one in (".1", ".2", ".log")]
    assert texts == [["one"], ["two"], ["three"]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_cut_goes_on_at_its_new_end(path, log):
    """As logrotate's `copytruncate` does it: no hole of zeros."""
    log.info("one " * 100)
    os.truncate(path, 0)
    log.info("two")
    assert path.read_bytes().count(b"\0") == 0
    assert lines(path)[0].endswith("two")


def test_a_link_in_its_place_is_not_followed(path, log, tmp_path, capsys):
    """The old file is written on, and the trouble told once."""
    path.rename(path.with_suffix(".1"))
    path.symlink_to(tmp_path / "elsewhere")
    log.info("one")
    log.info("two")
    assert not (tmp_path / "elsewhere").exists()
    assert len(lines(path.with_suffix(".1"))) == 2
    assert capsys.readouterr().err.count("a link") == 1


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/null")])
def test_what_cannot_be_opened_is_refused_in_a_sentence(path, make):
    """Before anything is begun, with what to do."""
    make(path)
    with pytest.raises(ConfigInvalid) as caught, logging_to(path):
        pass
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_full_disk_harms_nobody(path, log, disk, capsys):
    """Lines are lost and counted; what was taken half is ended, and told once on standard error."""
    log.info("one")
    disk[0] = 10
    for _ in range(5):
        log.info("lost")
    disk[0] = None
    log.info("two")
    log.info("three")
    found = lines(path)
    assert found[0].endswith("one")
    assert len(found[1]) == 10
    assert found[2] == "5 lines could not be written"
    assert [line.split(": ")[1] for line in found[3:]] == ["two", "three"]
    assert capsys.readouterr().err == f"flashferry: log file {path}: No space left on device; lines may be lost\n"


def test_a_record_that_cannot_be_told_harms_nobody(path):
    """Its place in the log says so."""
    handler = LogFile(path, LogLines())
    handler.handle(logging.LogRecord("flashferry.test", logging.INFO, "x.py", 1, "%d", ("no number",), None))
    handler.close()
    assert lines(path) == ["a line of flashferry.test could not be made: TypeError"]


HOSTILE = "a\n2026-11-23T20:00:00.000Z INFO flashferry.audit: forged\r\x1b[2J\u2028b\u202ec"


@pytest.mark.parametrize("is_json", [False, True])
def test_no_record_forges_a_line(path, is_json):
    """Line feeds, escapes, marks that turn the writing: one line, which a terminal shows."""
    with logging_to(path, is_json=is_json):
        LOG.info("%s", HOSTILE, extra={FIELDS: {"path": HOSTILE}})
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") == 1
    assert text[:-1].isprintable()
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("is_json", [False, True])
def test_a_trace_begins_no_line_of_its_own(path, is_json):
    """It is needed to mend what was wrong; what it quotes is text."""
    with logging_to(path, is_json=is_json):
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            LOG.exception("went wrong")
    found = lines(path)
    assert "Traceback" in path.read_text()
    if is_json:
        assert json.loads(found[0]).keys() == {"at", "level", "logger", "text", "trace"}
    else:
        assert all(line.startswith("  | ") for line in found[1:])


@pytest.mark.parametrize("is_json", [False, True])
def test_known_secrets_are_not_in_it(path, is_json):
    """Neither in words, nor in fields or a trace."""
    keep_secret("hunter2hunter2")
    with logging_to(path, is_json=is_json):
        try:
            raise ValueError("hunter2hunter2")
        except ValueError:
            LOG.exception("%s", "it was hunter2hunter2", extra={FIELDS: {"path": "/hunter2hunter2"}})
    forget_secrets()
    assert "hunter2" not in path.read_text()


def test_fields_are_for_programs(path):
    """Beside time, level, logger and words."""
    with logging_to(path, is_json=True):
        LOG.warning("slow", extra={FIELDS: {"ms": 12.5, "status": 200}})
    found = json.loads(path.read_text())
    assert (found["level"], found["text"], found["ms"], found["status"]) == ("warning", "slow", 12.5, 200)


def test_standard_error_has_warnings_alone(capsys):
    """Without a file it is as ever: what went wrong, without a time of ours."""
    with logging_to(None):
        LOG.info("chatter")
        LOG.warning("trouble\nforged")
    assert capsys.readouterr().err == "trouble\\nforged\n"


def test_it_ends_with_its_block(path):
    """Nothing is written behind it, and nothing of ours is left on the loggers."""
    before = list(logging.getLogger().handlers)
    with logging_to(path):
        pass
    LOG.warning("later")
    assert (logging.getLogger().handlers, lines(path)) == (before, [])


def test_lines_of_many_threads_are_whole(path):
    """Also while the file is rotated."""
    handler = LogFile(path, LogLines())
    log = logging.Logger("flashferry.own")
    log.addHandler(handler)

    def write(name: str) -> None:
        for number in range(200):
            log.warning("%s %d", name * 50, number)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for one in threads:
        one.start()
    for number in range(20):
        if path.exists():
            path.rename(path.with_suffix(f".{number}"))
    for one in threads:
        one.join()
    handler.close()
    found = [line for one in path.parent.iterdir() for line in lines(one)]
    assert len(found) == 800
    assert {line.split(": ")[1].split(" ")[0] for line in found} == {name * 50 for name in "abcd"}
