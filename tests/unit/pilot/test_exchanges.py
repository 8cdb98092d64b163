"""Sessions read back from transcripts: commands, echoes, answers and prompts, whatever came between."""

from __future__ import annotations

from flashferry.pilot.exchanges import read_session


def read(*entries: str):
    """Return the session of entries without their times."""
    return read_session("01-check", [f"2026-11-29T09:29:{at:02d}.000Z {text}" for at, text in enumerate(entries)])


def test_a_command_with_its_answer():
    """Echo and prompt are apart from what the device printed."""
    session = read(
        "- r1: logging in",
        *(
            "< \\r\\n",
            "< r1#",
            "> show privilege\\n",
            "< show privilege\\r\\n",
            "< Current privilege level is 15\\r\\n",
            "< r1#",
        ),
    )
    greeting, one = session.exchanges
    assert (greeting.answer, greeting.prompt) == ("\n", "r1#")
    assert (one.command, one.echo, one.before, one.prompt) == ("show privilege", "show privilege", "r1#", "r1#")
    assert one.answer == "Current privilege level is 15\n"
    assert session.notes == ("r1: logging in",)


def test_an_answer_to_a_question_is_no_command():
    """What is typed at a question belongs to the copy, whose text goes on after it."""
    session = read(
        *("< r1#", "> copy ftp://***@10.0.0.1/x flash:x\\n", "< copy ftp://***@10.0.0.1/x flash:x\\r\\n"),
        *("< Destination filename [x]? ", "> \\n", "< \\r\\n", "< Loading x ", "< !!", "< !\\r\\n", "< r1#"),
    )
    (one,) = session.exchanges[1:]
    assert one.answer == "Destination filename [x]? \nLoading x !!!\n"
    assert [entry.text for entry in session.entries if entry.text.startswith("Loading")] == ["Loading x !!!"]


def test_the_end_of_a_command_that_waited_belongs_to_it():
    """The end of a command may come after its answer, where it could have been the start of a secret."""
    session = read(
        *(
            "< r1(config)#",
            "> do show running-config | include flash",
            "< do show running-config | include flashferry\\r\\n",
        ),
        *("< r1(config)#", "> ferry\\n", "> end\\n", "< end\\r\\n", "< r1#"),
    )
    show, end = session.exchanges[1:]
    assert (show.command, show.answer) == ("do show running-config | include flashferry", "")
    assert show.echo == show.command
    assert (end.command, end.prompt) == ("end", "r1#")


def test_configuration_lines_are_those_typed_in_that_mode():
    """An EXEC command given there by 'do' is none."""
    session = read("< r1(config)#", "> do show clock\\n", "< r1(config)#", "> ip tcp selective-ack\\n", "< r1(config)#")
    assert [one.is_configuring for one in session.exchanges[1:]] == [False, True]


def test_what_is_no_entry_is_left_out():
    """A line that was cut when the process was killed ends nothing else."""
    lines = ["2026-11-29T09:29:00.000Z < r1#", "2026-11-29T09:29:01.000Z > show cl", "2026-11-2"]
    assert read_session("06-kill", lines).exchanges[-1].command == "show cl"
