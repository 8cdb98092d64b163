"""The copy dialogue: each question has one answer, and none destroys anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inventory.errors import ConfigInvalid
from tasks.copy_dialogue import MAX_COMMAND_LENGTH, CopyDialogue, Question, copy_command, mask

CAPTURES = Path(__file__).parents[2] / "captures" / "copy_ftp"
IMAGE = "image-universalk9.SPA.bin"


def dialogue(target: str = f"flash:{IMAGE}") -> CopyDialogue:
    return CopyDialogue(prompt_pattern=r"(?m)^r1[^\s#>]{0,20}#\s*$", source=f"192.0.2.10/{IMAGE}", target=target)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_outcome_of_every_capture(path):
    """Success, error and refusal are what the capture's record says; a foreign job's error is not ours."""
    wanted = json.loads(path.with_suffix(".expected.json").read_text())
    talk = dialogue()
    assert talk.reply(path.read_text().replace("\n", "\r\n") + "r1#") is not None
    assert talk.reply("") is None
    found = talk.outcome()
    assert (found.result.size_bytes if found.result else None) == wanted["bytes"]
    assert found.error == wanted["error"]
    asked_overwrite = found.refused is Question.OVERWRITE
    assert asked_overwrite == wanted["overwrite_prompt"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Destination filename [x.bin]? ", "\n"),
        ("%Warning:There is a file already existing with this name \r\nDo you want to over write? [confirm]", "n"),
        ("Erase flash: before copying? [confirm]", "n"),
        ("Erasing the flash filesystem will remove all files! Continue? [confirm]", "n"),
        ("Copy 'x' from server\r\n  as 'x' into Flash WITH erase? [yes/no]", "no\n"),
        ("%Warning: File not a valid executable for this system\r\nAbort Copy? [confirm]", "\n"),
    ],
)
def test_answer_to_every_question(question, answer):
    """Nothing is overwritten, nothing erased, a wrong file is not kept."""
    assert dialogue().reply(f"\r\n{question}") == (answer,)


def test_a_question_is_answered_once_and_in_pieces():
    """A question that arrives byte by byte gets one answer, when it is whole."""
    talk = dialogue()
    answers = [answer for byte in "Destination filename [x]? " for answer in talk.reply(byte) or ()]
    assert answers == ["\n"]


def test_a_question_with_a_syslog_line_behind_it_is_answered():
    """Another line behind the question does not hide it."""
    noisy = "Destination filename [x]? \r\n*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console\r\n"
    assert dialogue().reply(noisy) == ("\n",)


def test_an_unknown_question_is_left_open_and_shown():
    """What we have no answer for is not answered."""
    talk = dialogue()
    assert talk.reply("\r\nProceed with the frobnication? [yes/no]: ") == ()
    assert talk.open_question == "Proceed with the frobnication? [yes/no]:"


def test_marks_are_no_question():
    """A running copy and its result are no open question."""
    talk = dialogue()
    talk.reply("Accessing ftp://*:*@192.0.2.10/x...\r\nLoading x !!!!!!!")
    assert talk.open_question is None


def test_the_echo_of_the_command_is_not_the_prompt():
    """The dialogue ends at the prompt alone on its line, not at the echoed command."""
    talk = dialogue()
    assert talk.reply("copy ftp://u:p@192.0.2.10/x flash:x\r\n") == ()
    assert talk.reply("r1#") is None


def test_an_error_about_our_target_is_ours():
    """`flash:` may read `bootflash:`; the file name decides."""
    talk = dialogue()
    talk.reply(f"%Error copying bootflash:/{IMAGE} (Not enough space on device)\r\nr1#")
    assert talk.outcome().error == "Not enough space on device"


def test_the_transcript_has_no_credentials():
    """The echoed command carries user and password; the transcript does not."""
    talk = dialogue()
    talk.reply("copy ftp://ticketuser:ticketpass@192.0.2.10/x flash:x\r\n")
    assert "ticketpass" not in talk.transcript
    assert "ticketuser" not in talk.transcript
    assert mask("ftp://u:p@h/x") == "ftp://*:*@h/x"


@pytest.mark.parametrize("echo", ["$user1:pw123@192.0.2.10/x flash:x", "copy ftp://user1:p\r\nw123@192.0.2.10/x"])
def test_a_cut_or_wrapped_echo_shows_no_credentials(echo):
    """A terminal that cuts the URL's head off or wraps it inside the password leaks neither."""
    talk = CopyDialogue(prompt_pattern="^r1#$", source="192.0.2.10/x", target="flash:x", secrets=("user1", "pw123"))
    talk.reply(echo)
    assert "user1" not in talk.transcript
    assert "w123" not in talk.transcript


@pytest.mark.parametrize("changes", [{"vrf": "A\nreload"}, {"server": "192.0.2.1 x"}, {"vrf": "a b"}])
def test_an_address_or_vrf_of_more_than_a_word_is_refused(changes):
    """A line break in either would be a command of its own."""
    with pytest.raises(ConfigInvalid, match="letters, digits"):
        command(**changes)


def command(**changes: object) -> str:
    given = {
        "username": "u",
        "password": "p",
        "server": "192.0.2.10",
        "port": 21,
        "image": "x.bin",
        "target": "flash:x",
    }
    return copy_command(**(given | changes))


def test_the_command_as_ios_takes_it():
    """Port 21 is left out of the URL; the VRF stands behind the target."""
    assert command() == "copy ftp://u:p@192.0.2.10/x.bin flash:x"
    assert command(port=2121, vrf="Mgmt-vrf") == "copy ftp://u:p@192.0.2.10:2121/x.bin flash:x vrf Mgmt-vrf"


@pytest.mark.parametrize(
    "image", ["a b.bin", "a?.bin", "a%20.bin", "a@b.bin", "a|b.bin", "a:b.bin", "-a.bin", "a\nb.bin", ""]
)
def test_a_name_that_ios_cannot_take_is_refused(image):
    """A blank ends the URL, `?` calls help, `%xy` is forbidden, `@` ends the credentials, `|` filters."""
    with pytest.raises(ConfigInvalid, match="Rename the file"):
        command(image=image)


def test_a_command_longer_than_an_ios_line_is_refused():
    """At 253 characters it is taken, at 254 it is not, and the figure is told."""
    spare = MAX_COMMAND_LENGTH - len(command(image="x")) + 1
    assert len(command(image="x" * spare)) == MAX_COMMAND_LENGTH
    with pytest.raises(ConfigInvalid, match="254 characters"):
        command(image="x" * (spare + 1))
