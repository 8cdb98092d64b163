"""The copy dialogue: each question has one answer, and none destroys anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashferry.devices.dialogue import COVERED_S, PROMPT_SETTLED_S, SETTLED_S
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import USUAL
from flashferry.transports.copy_dialogue import CopyDialogue, mask
from flashferry.transports.transport import Offer
from tests.unit.transports.talking import answer_to

CAPTURES = Path(__file__).parents[2] / "captures" / "copy_ftp"
IMAGE = "image-universalk9.SPA.bin"
DESTINATION = f"Destination filename [{IMAGE}]? "
SYSLOG = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console"


def dialogue(target: str = f"flash:{IMAGE}", image: str = IMAGE) -> CopyDialogue:
    offer = Offer(
        transport=USUAL, server="192.0.2.10", port=21, image=image, username="q7Zk2mXw", password="Gf4tR9bLs0Vn8cJd"
    )
    return CopyDialogue(prompt_pattern=r"(?m)^r1[^\s#>]{0,20}#\s*$", offer=offer, target=target, platform=IOS_XE)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_outcome_of_every_capture(path):
    """Success, error and refusal are what the capture's record says; a foreign job's error is not ours."""
    wanted = json.loads(path.with_suffix(".expected.json").read_text())
    talk = dialogue()
    for character in path.read_text().replace("\n", "\r\n"):
        answer_to(talk, character)
    talk.take("r1#")
    assert talk.is_over
    found = talk.outcome()
    assert (found.result.size_bytes if found.result else None) == wanted["bytes"]
    assert found.error == wanted["error"]
    asked_overwrite = found.refused is not None and found.refused.finds_file
    assert asked_overwrite == wanted["overwrite_prompt"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (f"Destination filename [{IMAGE}]? ", "\n"),
        ("%Warning:There is a file already existing with this name \r\nDo you want to over write? [confirm]", "n"),
        ("Erase flash: before copying? [confirm]", "n"),
        ("Erasing the flash filesystem will remove all files! Continue? [confirm]", "n"),
        ("Copy 'x' from server\r\n  as 'x' into Flash WITH erase? [yes/no]", "no\n"),
        ("%Warning: File not a valid executable for this system\r\nAbort Copy? [confirm]", "\n"),
    ],
)
def test_answer_to_every_question(question, answer):
    """Nothing is overwritten, nothing erased, a wrong file is not kept."""
    talk = dialogue()
    assert answer_to(talk, f"\r\n{question}") == answer
    assert talk.due is None


def test_a_question_is_answered_once_and_in_pieces():
    """A question that arrives byte by byte gets one answer, when it is whole."""
    talk = dialogue()
    answers = [answer for byte in DESTINATION if (answer := answer_to(talk, byte))]
    assert answers == ["\n"]


@pytest.mark.parametrize(
    "again",
    [
        f"\r\n{DESTINATION}",
        f"\r\n{SYSLOG}\r\n{DESTINATION}",
        f"\r\n***\r\n*** Message from tty0 to all terminals:\r\n***\r\nreload at five\r\n\r\n{DESTINATION}",
        f"\r\nr1#copy ftp: flash:\r\n{DESTINATION}",
    ],
)
def test_a_question_drawn_twice_gets_one_answer(again):
    """The spare Enter would fall into the next question, which empties the flash."""
    talk = dialogue()
    assert answer_to(talk, DESTINATION) == "\n"
    assert answer_to(talk, again) is None
    assert "again, which was answered already" in str(talk.stuck_at)
    assert answer_to(talk, "\r\nErase flash: before copying? [confirm]") == "n"
    assert answer_to(talk, "\r\nErase flash: before copying? [confirm]") is None


@pytest.mark.parametrize("shown", ["", " ", "\b"])
def test_a_device_that_shows_nothing_behind_an_answer_is_at_work(shown):
    """A question stays the last thing shown until a busy device moves on: it was not asked again."""
    talk = dialogue()
    assert answer_to(talk, DESTINATION) == "\n"
    assert answer_to(talk, shown) is None
    assert talk.stuck_at is None
    assert answer_to(talk, f"\r\n{DESTINATION}") is None
    assert "again, which was answered already" in str(talk.stuck_at)


def test_a_question_that_is_not_the_last_thing_shown_gets_no_answer():
    """Whatever stands behind it may be what a key is for; drawn again, it is answered."""
    talk = dialogue()
    assert answer_to(talk, f"{DESTINATION}\r\n{SYSLOG}\r\n") is None
    assert "is not the last thing shown" in str(talk.stuck_at)
    assert talk.is_disturbed
    assert answer_to(talk, DESTINATION) == "\n"
    assert not talk.is_disturbed


@pytest.mark.parametrize("offered", ["startup-config", "other.bin", "", "/", f"x{IMAGE}"])
def test_another_name_than_ours_is_never_confirmed(offered):
    """Enter would write over that file; the sentence says which name was expected."""
    talk = dialogue()
    assert answer_to(talk, f"Destination filename [{offered}]? ") is None
    assert IMAGE in str(talk.stuck_at)


@pytest.mark.parametrize("offered", [IMAGE, f"/{IMAGE}", f"flash:{IMAGE}", f"bootflash:/{IMAGE}"])
def test_our_name_in_the_devices_spelling_is_confirmed(offered):
    """With a slash, or with the file system in front."""
    assert answer_to(dialogue(), f"Destination filename [{offered}]? ") == "\n"


@pytest.mark.parametrize("offered", [IMAGE, "null", ""])
def test_a_copy_to_null_may_name_the_image_or_nothing(offered):
    """Nothing is written there; another file's name is refused all the same."""
    assert answer_to(dialogue("null:"), f"Destination filename [{offered}]? ") == "\n"
    assert answer_to(dialogue("null:"), "Destination filename [startup-config]? ") is None


@pytest.mark.parametrize("question", ["File is in use. Delete it? [confirm]", DESTINATION, "Save? [yes/no]: "])
def test_a_prompt_behind_a_question_that_nobody_answered_is_not_believed(question):
    """Somebody's text may look like the prompt, and the next key would be the answer."""
    talk = dialogue()
    talk.take(f"\r\n{question}\r\nlunch?\r\nr1#")
    assert talk.is_over
    assert str(talk.passed_over).startswith(question.strip()[:10])


def test_a_question_that_was_answered_is_not_passed_over():
    """Also where it is drawn again behind its answer."""
    talk = dialogue()
    answer_to(talk, DESTINATION)
    talk.take(f"\r\n{DESTINATION}\r\n%Error opening ftp://x (Timed out)\r\nr1#")
    assert talk.is_over
    assert talk.passed_over is None


def test_an_unknown_question_is_left_open_and_shown():
    """What we have no answer for is not answered."""
    talk = dialogue()
    assert answer_to(talk, "\r\nProceed with the frobnication? [yes/no]: ") is None
    assert talk.stuck_at == ("the device asks 'Proceed with the frobnication? [yes/no]:', which we have no answer for")


def test_marks_are_no_question():
    """A running copy and its result are no open question."""
    talk = dialogue()
    talk.take("Accessing ftp://*:*@192.0.2.10/x...\r\nLoading x !!!!!!!")
    assert talk.stuck_at is None
    assert talk.settles_in_s is None


def test_the_echo_of_the_command_is_not_the_prompt():
    """The dialogue ends at the prompt alone on its line, not at the echoed command."""
    talk = dialogue()
    talk.take("copy ftp://u:p@192.0.2.10/x flash:x\r\n")
    assert not talk.is_over
    talk.take("r1#")
    assert talk.is_over


def test_a_prompt_that_other_text_follows_counts_only_after_a_while():
    """A broadcast draws nothing again on some releases; output with a line like the prompt goes on at once."""
    talk = dialogue()
    talk.take("300000 bytes copied in 1.2 secs\r\nr1#")
    assert talk.settles_in_s == PROMPT_SETTLED_S
    talk.take("\r\n*** Message from tty0\r\n")
    assert not talk.is_over
    assert talk.settles_in_s == COVERED_S


@pytest.mark.parametrize(
    "above", ["", SYSLOG, "***\r\n*** Message from tty0 to all terminals:\r\n***\r\nreload at five"]
)
def test_a_prompt_that_may_be_drawn_anew_has_to_stand_for_longer(above):
    """The command may follow it once more, and what is typed next would be the answer to its first question."""
    talk = dialogue()
    talk.take(f"\r\n{above}\r\nr1#")
    assert talk.settles_in_s == SETTLED_S > PROMPT_SETTLED_S


def test_an_error_about_our_target_is_ours():
    """`flash:` may read `bootflash:`; the file name decides."""
    talk = dialogue()
    talk.take(f"%Error copying bootflash:/{IMAGE} (Not enough space on device)\r\nr1#")
    assert talk.outcome().error == "Not enough space on device"


def test_the_transcript_has_no_credentials():
    """The echoed command carries user and password; the transcript does not."""
    talk = dialogue()
    talk.take("copy ftp://ticketuser:ticketpass@192.0.2.10/x flash:x\r\n")
    assert "ticketpass" not in talk.transcript
    assert "ticketuser" not in talk.transcript
    assert mask("ftp://u:p@h/x") == "ftp://*:*@h/x"


@pytest.mark.parametrize(
    "echo",
    [
        "$q7Zk2mXw:Gf4tR9bLs0Vn8cJd@192.0.2.10/x flash:x",
        "copy ftp://q7Zk2mXw:Gf4tR9\r\nbLs0Vn8cJd@192.0.2.10/x",
    ],
)
def test_a_cut_or_wrapped_echo_shows_no_credentials(echo):
    """A terminal that cuts the URL's head off or wraps it inside the password leaks neither."""
    talk = dialogue("flash:x", "x")
    talk.take(echo)
    assert "192.0.2.10/x" in talk.transcript
    assert "q7Zk2mXw" not in talk.transcript
    assert "bLs0Vn8cJd" not in talk.transcript
