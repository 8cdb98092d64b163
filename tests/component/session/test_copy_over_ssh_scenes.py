"""A copy by SCP on a real session: the password goes into its prompt, once, and into nothing else."""

from __future__ import annotations

from typing import cast

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import CopyFailed, DialogueDisturbed, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from flashferry.devices.transcript import Recent, Recorder
from flashferry.transports import transport_named
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer, ServerView, copy_command
from tasks.copy import CopyWatch, copy_limits

USER, PASSWORD = "q7Zk2mXw", "Gf4tR9bLs0Vn8cJd"
SYSLOG = "*Sep 13 09:24:43.803: %LINK-3-UPDOWN: Interface Gi3, changed state to up"
OFFER = Offer(
    transport=transport_named("scp"), server="192.0.2.1", port=22, image="x.bin", username=USER, password=PASSWORD
)
DONE = "\r\n Sending file modes: C0644 3 x.bin\r\n!\r\n3 bytes copied in 3.444 secs (1 bytes/sec)\r\nr1#"


def held(router, *, failure: str | None = None) -> tuple[CopyDialogue, Recent]:
    """Hold the copy on a session; return the dialogue and the session's transcript."""
    recent = Recent()
    session = DeviceSession(replace(router.login, recorder=Recorder(recent)))
    talk = CopyDialogue(prompt_pattern=session.prompt_pattern, offer=OFFER, target="flash:x.bin", platform=IOS_XE)
    seen = ServerView(client_seen=True, failure=failure)
    watch = CopyWatch("r1", talk, 3, copy_limits(size_bytes=3, expected_bytes_per_s=1e6), lambda: seen, lambda: False)
    try:
        session.converse(copy_command(OFFER, "flash:x.bin", IOS_XE), talk, watch.check)
    finally:
        assert PASSWORD not in "".join(recent.lines()) + talk.transcript
        session.abandon()
    return talk, recent


def typed(router) -> list[tuple[str, str]]:
    return [pair for pair in router.typed if pair[0] != "prompt"]


@pytest.mark.parametrize("echoes_line_end", [True, False])
def test_all_that_was_captured_is_answered(device, echoes_line_end):
    """Address, user, source, target, password: one answer each, the password unseen, whatever comes behind it."""

    def scene(play):
        play.log_in()
        play.line()
        for name, offered in (
            ("Address or name of remote host", "192.0.2.1"),
            ("Source username", USER),
            ("Source filename", "/x.bin"),
            ("Destination filename", "x.bin"),
        ):
            play.show(f"{name} [{offered}]? ")
            play.line(name)
        play.show("Password: ")
        play.line("Password", echo=False) if echoes_line_end else read_unseen(play)
        play.wait_for_looks(2)
        play.show(DONE)
        play.wait_for_the_end()

    router = device(scene)
    talk, _ = held(router)
    assert typed(router)[:5] == [
        ("Address or name of remote host", ""),
        ("Source username", ""),
        ("Source filename", ""),
        ("Destination filename", ""),
        ("Password", PASSWORD),
    ]
    result = talk.outcome().result
    assert result is not None
    assert result.size_bytes == 3


def read_unseen(play) -> None:
    """Take a line and show nothing, not even its end."""
    line = ""
    while (key := play.channel.recv(1).decode("latin-1")) not in ("\r", "\n"):
        line += key
    play.typed.append(("Password", line))


def test_a_login_that_takes_its_time_is_not_a_refusal(device, monkeypatch):
    """The question is the last thing shown for as long as the login takes: nothing is typed, and nobody gives up."""
    monkeypatch.setattr("tasks.copy.STUCK_S", 0.3)

    def scene(play):
        play.log_in()
        play.line()
        play.show("Password: ")
        read_unseen(play)
        # Each is a second at most, and longer than the limit.
        play.wait_for_looks(3)
        play.show(DONE)
        play.wait_for_the_end()

    router = device(scene)
    assert held(router)[0].outcome().result is not None
    assert [pair for pair in typed(router) if pair[0] == "Password"] == [("Password", PASSWORD)]


def test_a_wrong_password_is_not_typed_again(device, monkeypatch):
    """Asked again, the copy is broken off, with what our server says of it."""
    monkeypatch.setattr("tasks.copy.STUCK_S", 0.3)

    def scene(play):
        play.log_in()
        play.line()
        play.show("Password: ")
        play.line("Password", echo=False)
        play.show("Password: ")
        play.key("Password again")
        play.show("\r\n%Error opening scp://*:*@192.0.2.1/x.bin (Undefined error)\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    with pytest.raises(CopyFailed, match="refused with the ticket's, which is typed only once; our server says: no"):
        held(router, failure="no ticket")
    assert typed(router)[:2] == [("Password", PASSWORD), ("Password again", "\x1e")]


def test_a_prompt_that_a_log_line_covers_gets_no_password(device, monkeypatch):
    """Without `logging synchronous` nobody knows what a key would be for."""
    monkeypatch.setattr("tasks.copy.STUCK_S", 0.3)

    def scene(play):
        play.log_in()
        play.line()
        play.show(f"Password: \r\n{SYSLOG}\r\n")
        play.key("covered")
        play.show("\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    with pytest.raises(DialogueDisturbed, match="not the last thing shown"):
        held(router)
    assert typed(router)[0] == ("covered", "\x1e")


def test_a_prompt_that_is_drawn_again_gets_one_password(device):
    """With `logging synchronous` the log line comes first, then the question anew."""

    def scene(play):
        play.log_in()
        play.line()
        play.show("Password: ")
        play.wait_until_read()
        play.show(f"\r\n{SYSLOG}\r\nPassword: ")
        play.line("Password", echo=False)
        play.show(DONE)
        play.wait_for_the_end()

    router = device(scene)
    assert held(router)[0].outcome().result is not None
    assert typed(router)[0] == ("Password", PASSWORD)


@pytest.mark.parametrize(
    "question", ["Are you sure you want to continue connecting (yes/no)? ", "Source username [admin]? "]
)
def test_what_is_not_ours_is_broken_off(device, monkeypatch, question):
    """A key that nobody can compare, another user: no answer, and no password behind it."""
    monkeypatch.setattr("tasks.copy.STUCK_S", 0.3)

    def scene(play):
        play.log_in()
        play.line()
        play.show(question)
        play.key("question")
        play.show("\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    with pytest.raises(OutputNotUnderstood, match="expected the"):
        held(router)
    assert typed(router)[0] == ("question", "\x1e")


def test_no_algorithm_in_common_is_told_by_both_lists(device):
    """The log line and the line of the client, where a session shows them."""

    def scene(play):
        play.log_in()
        play.line()
        play.show(
            "\r\n*Mar  3 09:11:02.431: %SSH-3-NO_MATCH: No matching kex algorithm found: client group14-sha1 server "
            "curve25519-sha256\r\n[Connection to 192.0.2.1 aborted: error status 0]\r\nr1#"
        )
        play.wait_for_the_end()

    found = held(device(scene))[0].outcome()
    assert found.error == "connection aborted, error status 0"
    assert (cast("object", found.no_match) is not None, found.result) == (True, None)
