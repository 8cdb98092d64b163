"""Where an answer begins and ends, however the text comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.devices.prompts import (
    AnswerReader,
    EchoGate,
    any_prompt,
    exec_prompt,
    first_prompt,
    last_line,
    open_question,
    prompt_line,
)

SYSLOG = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console"


def reader(command: str, prompt: str = "r1#") -> AnswerReader:
    return AnswerReader(command, any_prompt(prompt))


@given(st.lists(st.integers(min_value=1, max_value=60), max_size=30))
def test_the_cuts_do_not_matter(sizes):
    """Cut anywhere, the answer is the same, and it is whole exactly when the prompt is."""
    text = "\r\nr1#show clock\r\n*14:16:54.123 UTC Fri Nov 20 2026\r\nsecond # line\r\nr1#"
    wanted, answer, rest = reader("show clock"), None, text
    for size in [*sizes, len(text)]:
        answer, rest = wanted.take(rest[:size]) if rest else answer, rest[size:]
    assert answer is not None
    assert answer.is_whole
    assert (answer.text, answer.prompt) == ("*14:16:54.123 UTC Fri Nov 20 2026\nsecond # line", "r1#")


def test_nothing_counts_before_the_echo():
    """A late syslog line and an old prompt in front of the echo are no answer."""
    wanted = reader("show clock")
    assert wanted.take("*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console\r\nr1#") is None
    assert wanted.take("r1#show clock\r\n") is None
    answer = wanted.take("noon\r\nr1#")
    assert answer is not None
    assert answer.text == "noon"


def test_syslog_behind_the_prompt():
    """What follows the prompt is not the answer's; syslog alone says that the prompt was one."""
    answer = reader("show clock").take(
        "show clock\r\nnoon\r\nr1#\r\n000123: .Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from vty0\r\n"
    )
    assert answer is not None
    assert (answer.text, answer.prompt, answer.is_whole, answer.only_syslog_follows) == ("noon", "r1#", False, True)


def test_a_line_that_looks_like_the_prompt():
    """Inside the output it is no end: more text follows, and the true prompt counts."""
    wanted = reader("show running-config")
    early = wanted.take("show running-config\r\nbanner motd ^C\r\nr1#\r\nwelcome\r\n")
    assert early is not None
    assert (early.is_whole, early.only_syslog_follows) == (False, False)
    answer = wanted.take("^C\r\nend\r\nr1#")
    assert answer is not None
    assert answer.is_whole
    assert answer.text == "banner motd ^C\nr1#\nwelcome\n^C\nend"


@pytest.mark.parametrize(
    ("prompt", "is_configuring"),
    [
        ("a-router-with-a-very-long-name#", False),
        ("a-router-with-a-very-long-name>", False),
        ("a-router-with-a-very(config)#", True),
        ("a-router-with-a-ver(config-if)#", True),
    ],
)
def test_modes(prompt, is_configuring):
    """The prompt shows the mode, also where configuration mode cuts the name."""
    learnt = "a-router-with-a-very-long-name" + prompt[-1]
    answer = reader("x", prompt=learnt).take(f"x\r\n{prompt}")
    assert answer is not None
    assert (answer.is_configuring, answer.text) == (is_configuring, "")


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("\r\nr1#", "r1#"),
        ("\nr1>", "r1>"),
        ("\n% Invalid input detected at '^' marker.\n\nr1#", "r1#"),
        ("\nr1", None),
        ("\n*Sep 13: %SYS-5-CONFIG_I: by console", None),
        ("\nPassword: ", None),
        ("\n*****#", None),
        ("\nr1#\n", None),
        (f"\r\nr1#\r\n{SYSLOG}\r\n\r\n000123: {SYSLOG}\r\n", "r1#"),
        (f"\r\nr1#\r\nwelcome\r\n{SYSLOG}\r\n", None),
    ],
)
def test_the_first_prompt(text, prompt):
    """The host's name is whatever stands in front of # or > at the very end."""
    assert first_prompt(text) == prompt


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("\r\nbr9 #", "br9 #"),
        ("\r\n*** ONE LINE, NO END *** see rule 7**r1#", "*** ONE LINE, NO END *** see rule 7**r1#"),
        ("\n% Invalid input detected at '^' marker.\r\n\r\n<r1> on vty 3 #", "<r1> on vty 3 #"),
        (f"\r\nbr9 #\r\n{SYSLOG}\r\n", "br9 #"),
        ("\r\n#### #", None),
        ("\r\nbr9 #\r\n", None),
    ],
)
def test_a_whole_line_as_the_prompt(text, prompt):
    """After an echo the last line is the prompt, with all its blanks, where it ends as one."""
    assert prompt_line(text) == prompt


@pytest.mark.parametrize("prompt", ["br7-STP-1234#", "br9 #", "br9 [3] (lab)#", "br7.*#"])
def test_a_prompt_of_its_own(prompt):
    """EXEC mode's prompt counts to the letter, configuration mode's whatever the device is called there."""
    learnt = reader("x", prompt=prompt)
    answer = learnt.take(f"x\r\nbr7 says #\r\n{prompt}")
    assert answer is not None
    assert (answer.prompt, answer.text, answer.is_whole, answer.is_configuring) == (prompt, "br7 says #", True, False)
    answer = reader("configure terminal", prompt=prompt).take("configure terminal\r\nbr7(config)#")
    assert answer is not None
    assert answer.is_configuring


def test_no_prompt_of_configuration_mode_ends_a_command_of_exec_mode():
    """A banner may hold one: only where configuration lines are sent it is an end."""
    wanted = AnswerReader("show running-config", exec_prompt("r1#"))
    assert wanted.take("show running-config\r\nbanner motd ^C\r\nr1(config)#") is None


@pytest.mark.parametrize(
    "shown",
    [
        "r1#alias exec flashferry-1 netops@$ flashferry-1 netops@nms-prod-eu\r\n",
        "r1#alias exec flashferry-1 net" + "\b" * 20 + "$-1 netops   \b\b\b@nms-prod-eu\r\n",
    ],
)
def test_an_echo_that_was_scrolled(shown):
    """The line is drawn again after `$`, from its middle: what follows it is the answer."""
    command = "alias exec flashferry-1 netops@nms-prod-eu"
    wanted = reader(command)
    assert wanted.take(shown[:-3]) is None
    answer = wanted.take(shown[-3:] + "% Not taken\r\nr1(config)#")
    assert answer is not None
    assert (answer.text, answer.prompt) == ("% Not taken", "r1(config)#")


def test_no_answer_is_whole_before_its_least_characters_have_come():
    """Its echo, a line end and a prompt of two characters: the shortest answer there is."""
    shortest = reader("end", prompt="r#")
    assert shortest.least_left == len("end\nr#")
    for char in "end\nr":
        before = shortest.least_left
        assert shortest.take(char) is None
        assert shortest.least_left == before - 1
    assert shortest.least_left == 1
    assert shortest.take("#") is not None
    assert shortest.least_left == 1
    gate = EchoGate("end")
    assert [(gate.least_left, gate.has_echo(char)) for char in "end"] == [(3, False), (2, False), (1, True)]
    assert gate.least_left == 1


def test_another_commands_scrolled_echo_is_not_ours():
    """Its end must be this command's, and long enough to be nothing else."""
    wanted = reader("alias exec flashferry-1 netops@nms-prod-eu")
    assert wanted.take("r1#alias exec flas$ netops@nms-prod-us\r\nr1#x$-eu\r\nr1#") is None


COPY = "copy ftp://user:secret@192.0.2.1:2121/image-of-a-long-name.bin bootflash:image-of-a-long-name.bin"


@pytest.mark.parametrize(
    "echo",
    [
        COPY,
        COPY[:80] + "\r\n" + COPY[80:],
        COPY.replace("user:secret", "*:*"),
        COPY[:60] + "\b" * 60 + "$" + COPY[20:],
        COPY[:30] + f"\r\n{SYSLOG}\r\nr1#" + COPY,
    ],
    ids=["whole", "wrapped", "masked", "scrolled", "drawn anew"],
)
def test_the_gate_opens_behind_the_echo(echo):
    """However the terminal shows the command, all in front of its end is held back, and nothing behind it is."""
    gate = EchoGate(COPY)
    assert not any(gate.has_echo(char) for char in f"\r\n{SYSLOG}\r\nr1#{echo}"[:-1])
    assert gate.has_echo(echo[-1])
    assert gate.after == ""
    gate.has_echo("\r\nDestination")
    assert gate.after == "\r\nDestination"


def test_a_prompt_without_the_echo_opens_nothing():
    """Neither a prompt nor the beginning of another command is the echo."""
    gate = EchoGate("delete flash:x.bin")
    assert not gate.has_echo("\r\nr1#\r\nr1#delete flash:y.bin\r\nr1#")
    assert not gate.is_open
    assert gate.after == ""


def test_an_answer_behind_a_command_drawn_anew():
    """The prompt in front of the command drawn again ends nothing at once, and the lines above are no output."""
    wanted = reader("show clock")
    early = wanted.take(f"show clock\r\n{SYSLOG}\r\nr1#")
    assert early is not None
    assert not early.stands(0.1, redrawn_s=0.3, settled_s=1.0)
    assert early.stands(0.3, redrawn_s=0.3, settled_s=1.0)
    answer = wanted.take("show clock\r\nnoon\r\nr1#")
    assert answer is not None
    assert (answer.text, answer.stands(0.0, redrawn_s=0.3, settled_s=1.0)) == ("noon", True)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("\r\nNew password: ", "New password:"),
        ("line\r\n --More-- ", "--More--"),
        ("\r\nDelete flash:/x? [confirm]", "Delete flash:/x? [confirm]"),
        ("\r\nusername admin secret 5 $1$", None),
        ("\r\nr1#", None),
        ("\r\nWhat now?\r\n", None),
    ],
)
def test_an_open_question(text, question):
    """Only what waits for an answer is quoted: a line of a configuration could hold a secret."""
    assert open_question(text) == question


def test_a_quoted_line_is_short():
    """Nobody wants a banner in an error, nor what a terminal does with control characters."""
    assert last_line("banner\n\x1b" + "x" * 200 + "\r\n\r\n") == "x" * 80


def test_the_prompts_of_a_large_fleet_stay_compiled() -> None:
    """Python's own cache has 512 expressions for the whole process; more devices than that are under way."""
    first = [exec_prompt("r0#"), any_prompt("r0#")]
    for number in range(1, 2000):
        exec_prompt(f"r{number}#")
        any_prompt(f"r{number}#")
    assert exec_prompt("r0#") is first[0]
    assert any_prompt("r0#") is first[1]
