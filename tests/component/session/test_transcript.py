"""What a session over SSH leaves in its transcript: all that was sent and came, in order, and no secret."""

from __future__ import annotations

import pytest

from flashferry.core.redaction import keep_secret
from flashferry.core.values import replace
from flashferry.devices import netmiko_driver
from flashferry.devices.errors import DeviceUnreachable, LoginRefused
from flashferry.devices.session import DeviceSession
from flashferry.devices.transcript import Recent, Recorder, Transcripts

ENABLE = "en4ble secret"


def said(lines) -> list[str]:
    """Return entries without their times, those of the terminal's settings left out."""
    return [one[25:] for one in lines if "terminal " not in one]


def never(text: str) -> None:
    raise AssertionError(text)


def test_all_that_was_sent_and_came(device, tmp_path):
    """From the login to the logout, the enable secret masked, in a file and as the last of the session."""

    def scene(play):
        play.show("\r\nr1>")
        for _ in range(3):
            play.line()
            play.show("r1>")
        play.line()
        play.show("Password: ")
        play.line("Password", echo=False)
        play.show("r1#")
        for _ in netmiko_driver.TERMINAL:
            play.line()
            play.show("r1#")
        play.line()
        play.show("enable secret 9 $9$abcdefgh\r\nnoon\x07\r\nr1#")
        play.wait_for_the_end()

    keep_secret(ENABLE)
    router, recent = device(scene), Recent()
    made = Transcripts(tmp_path / "folder", notify=never)
    made.folder.mkdir()
    login = replace(router.login, enable_secret=ENABLE, recorder=Recorder(recent, made.of("r1")))
    session = DeviceSession(login)
    assert session.ask("show clock") == "enable secret 9 $9$abcdefgh\nnoon\x07"
    session.close()
    made.close()
    lines = (next(made.folder.iterdir())).read_text().splitlines()[1:]
    found = said(lines)
    assert found[0].startswith("- r1: logging in to 127.0.0.1 port ")
    assert found[1].startswith("- session open: SSH-2.0-paramiko")
    at = found.index("> enable\\n")
    # What follows a line's end may come a little later; it is an entry of its own in any case.
    assert found[at : at + 5] == ["> enable\\n", "< enable\\r\\n", "< Password: ", "> ***\\n", "< \\r\\n"]
    at = found.index("> show clock\\n")
    assert found[at + 1 : at + 4] == ["< show clock\\r\\n", "< enable secret 9 ***\\r\\n", "< noon\\x07\\r\\n"]
    # A logout waits for its echo, but not for long.
    assert [one for one in found[at + 4 :] if one != "< exit\\r\\n"] == ["< r1#", "> exit\\n", "- logged out"]
    assert ENABLE not in "".join(lines)
    assert lines[-len(recent.lines()) :] == list(recent.lines())


def test_a_device_that_hangs_up_or_asks(device):
    """What it showed last is in the transcript of a login that came to nothing, and why."""

    def asks(play):
        play.show("\r\nYour password has expired.\r\nNew password: ")
        play.let_pass(1.1 * netmiko_driver.QUESTION_S)
        play.line("New password", echo=False)

    def leaves(play):
        play.show("\r\nr1#")
        play.line()
        play.show("\r\n%Bye\r\n")

    recents = {}
    for scene, error in ((asks, LoginRefused), (leaves, DeviceUnreachable)):
        recents[scene] = Recent()
        with pytest.raises(error):
            DeviceSession(replace(device(scene).login, recorder=Recorder(recents[scene])))
    found = said(recents[asks].lines())
    assert found[-2] == "< New password: "
    assert found[-1].startswith("- no session: r1: connect: expected a prompt, found the question 'New password:'")
    found = said(recents[leaves].lines())
    assert "< %Bye\\r\\n" in found
    assert found[-1].startswith("- no session: ")
