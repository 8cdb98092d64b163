"""Sessions with devices whose prompt, level, banner or width is not the usual one, played from captured text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.devices import netmiko_driver
from flashferry.devices.errors import DeviceUnreachable, LoginRefused
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession

SESSIONS = Path(__file__).parents[2] / "captures" / "sessions"
LINE = "ip tcp window-size 131072"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One command of a captured session: the prompt that it was typed at, the output, and the prompt after it."""

    prompt: str
    command: str
    output: str
    after: str


def turns_of(name: str, host: str) -> list[Turn]:
    """Return the turns of a captured session of a host."""
    text = (SESSIONS / f"{name}.session").read_text().replace("\n", "\r\n")
    found = list(re.finditer(rf"(?m)^({host}[^#>\r\n]*[#>])([^\r\n]*)", text))
    return [
        Turn(
            prompt=here[1],
            command=here[2],
            output=text[here.end() : following.start()].removeprefix("\r\n"),
            after=following[1],
        )
        for here, following in pairwise(found)
        if here[2]
    ]


def played(turns: list[Turn], *, greeting: str = "\r\n") -> Callable[..., None]:
    """Return a scene that answers as a captured session does; other lines get the prompt alone."""

    def scene(play):
        left, prompt = list(turns), turns[0].prompt
        play.show(greeting + prompt)
        while (line := play.line()) != "exit":
            turn = next((one for one in left if (one.command, one.prompt) == (line, prompt)), None)
            if turn is None:
                play.show(prompt)
                continue
            left.remove(turn)
            before, password, after = turn.output.partition("Password: ")
            play.show(before + password)
            if password:
                play.line("Password", echo=False)
            play.show(after.removeprefix("\r\n") + turn.after)
            prompt = turn.after

    return scene


@pytest.mark.parametrize(("name", "host"), [("custom_prompt", "br7"), ("blank_prompt", "br9")])
def test_a_prompt_line_in_the_configuration(device, name, host):
    """Configuration mode has the bare host name: the session goes in, sets a line, and comes out again."""
    turns = turns_of(name, host)
    router = device(played(turns))
    session = DeviceSession(router.login)
    transcript = session.configure((LINE,))
    assert f"{host}(config)#" in transcript
    assert session.lines_sent == 1
    assert session.ask("show clock") == ""
    assert session.privileged
    session.close()
    assert [text for _, text in router.typed][3:] == ["configure terminal", LINE, "end", "show clock", "exit"]


def test_a_banner_without_an_end_in_front_of_the_prompt(device, monkeypatch):
    """It stands on the first prompt's line: the session learns the prompt from its first commands."""
    monkeypatch.setattr(netmiko_driver, "QUESTION_S", 0.3)
    banner, prompt = (SESSIONS / "glued_banner.session").read_text().rsplit("**", 1)
    turn = Turn(prompt=prompt, command="show clock", output="noon\r\n", after=prompt)
    session = DeviceSession(device(played([turn], greeting=f"{banner}**".replace("\n", "\r\n"))).login)
    assert session.ask("show clock") == "noon"
    session.close()


def test_level_7_with_an_enable_secret(device):
    """`#` is no proof of level 15: the secret is typed, and what `show privilege` says then is not asked for again."""
    router = device(played(turns_of("privilege_7", "lvl7")))
    session = DeviceSession(replace(router.login, enable_secret="s3cret"))
    assert "level is 15" in session.show_privilege()
    session.close()
    typed = [text for _, text in router.typed]
    assert typed.count("s3cret") == 1
    assert [text for text in typed if text.startswith("show privilege")] == ["show privilege"] * 2


def test_level_7_without_a_secret_stays_there(device):
    """Nothing is tried: whether that level is enough is for the check to say."""
    router = device(played(turns_of("privilege_7", "lvl7")))
    DeviceSession(router.login).close()
    assert [text for _, text in router.typed][3:] == ["exit"]


def test_a_secret_that_leaves_the_level_as_it_is(device):
    """The prompt is the same before and after: the level is what shows that the secret was not taken."""
    at_7 = [
        Turn(prompt="r1#", command="show privilege", output="Current privilege level is 7\r\n", after="r1#"),
        Turn(prompt="r1#", command="enable", output="Password: \r\n% Access denied\r\n\r\n", after="r1#"),
    ]
    router = device(played([*at_7, at_7[0]]))
    with pytest.raises(LoginRefused, match="left the user at privilege level 7") as caught:
        DeviceSession(replace(router.login, enable_secret="s3cret"))
    assert "s3cret" not in str(caught.value)


def test_a_prompt_that_hides_the_level(device):
    """`prompt %h>` has `>` at level 15, too: the level counts."""
    at_15 = Turn(prompt="r1>", command="show privilege", output="Current privilege level is 15\r\n", after="r1>")
    session = DeviceSession(device(played([at_15])).login)
    assert session.privileged
    assert re.search(session.prompt_pattern, "output\nr1>")
    session.close()


def test_a_prompt_without_an_end(device):
    """`prompt %h:` has neither `#` nor `>`: nothing is typed, and the error names the line."""

    def scene(play):
        play.show("\r\nr1:")
        play.let_pass(netmiko_driver.LOGIN_LIMIT_S)
        play.wait_for_the_end()

    router = device(scene)
    with pytest.raises(DeviceUnreachable, match=r"last line seen: 'r1:'.*'prompt' line"):
        DeviceSession(router.login)
    assert router.typed == []


def test_a_prompt_like_that_of_configuration_mode(device):
    """Nobody could tell the modes apart: no session."""
    turn = Turn(prompt="r1(config)#", command="show clock", output="", after="r1(config)#")
    with pytest.raises(LoginRefused, match="no prompt"):
        DeviceSession(device(played([turn])).login)


def test_an_echo_that_scrolls_at_80_columns(device):
    """The width is refused and the name is long: the line is known by its end after `$`, and its refusal is read."""
    text = (SESSIONS / "scrolled.session").read_text()
    prompt, config = re.findall(r"(?m)^([^\s#]+#)", text)[0], re.findall(r"(?m)^(\S+\(config\)#)", text)[0]
    head, tail = text.splitlines()[-1].removeprefix(config).split("$")
    line = head + tail.partition("netops@")[2]

    def scene(play):
        play.show(f"\r\n{prompt}")
        play.line()
        play.show(f"Command authorization failed.\r\n\r\n{prompt}")
        for _ in range(2):
            play.line()
            play.show(prompt)
        play.line()
        play.show(f"Enter configuration commands, one per line.  End with CNTL/Z.\r\n{config}")
        assert play.line(echo=False) == line
        play.show(f"{head}${tail}\r\n% Ambiguous command\r\n{config}")
        play.line()
        play.show(prompt)
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    assert refusals(session.configure((line,)), (line,)) == {line: "% Ambiguous command"}
    assert session.alive
    session.close()
