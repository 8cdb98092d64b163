"""The router by itself: configuration, filters, files and questions as IOS has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.adversary.router.configuration import Configuration, parsed
from tests.adversary.router.device import Device
from tests.adversary.router.ftp import source_of
from tests.adversary.router.knobs import CARET, Knobs, Redraw
from tests.adversary.router.platforms import MODELS, PLATFORMS
from tests.adversary.router.shows import directory, filtered, show
from tests.adversary.router.storage import File, Owner
from tests.adversary.router.terminal import Asked, HungUp, Terminal, Transcript
from tests.patience import PATIENCE_S
from tests.some import some


def stock(platform: str = "xe", **other: str) -> Configuration:
    values = {"hostname": "r1", "serial": "FOC1", "username": "ferry", "privilege": "15", "community": "c"} | other
    return parsed(PLATFORMS[platform].stock.format(**values), ranks=PLATFORMS[platform].ranks)


def device(platform: str = "xe", configuration: Configuration | None = None, **knobs: object) -> Device:
    return Device(
        name="A",
        platform=PLATFORMS[platform],
        model=MODELS[platform],
        knobs=Knobs(**knobs),  # type: ignore[arg-type] # by name
        serials=tuple(f"FOC{number}" for number in range(1, PLATFORMS[platform].members + 1)),
        stock=configuration or stock(platform),
        strike=lambda _: None,
    )


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "line",
    [
        "ip tcp window-size 70001",
        "ip tcp selective-ack",
        "alias exec flashferry-20261122-0001 ferry",
        "ip ftp source-interface GigabitEthernet0/0/0",
        "username deputy privilege 15 secret 9 x",
        "some line that nobody has heard of",
    ],
)
def test_what_is_set_and_taken_out_leaves_the_same_text(platform: str, line: str):
    """Whatever stood around it; and the same goes for a value in the place of another one."""
    configuration = stock(platform)
    configuration.put("ip tcp window-size 8000")
    before = configuration.printed()
    configuration.put(line)
    assert line in configuration.printed()
    configuration.put(f"no {line}")
    configuration.put("ip tcp window-size 8000")
    assert configuration.printed() == before


def test_a_configuration_is_printed_from_its_state():
    """Kinds have their places, sections keep their lines, a banner's text stands in the first column."""
    configuration = stock()
    configuration.put("banner motd ^C", ("ip tcp window-size 12345", "^C"))
    configuration.put("ip tcp window-size 8000")
    lines = configuration.printed()
    assert (
        lines.index("ip forward-protocol nd") < lines.index("ip tcp window-size 8000") < lines.index("ip ssh version 2")
    )
    assert " ip address 10.20.30.1 255.255.255.0" in lines
    assert "ip tcp window-size 12345" in lines
    assert lines[-1] == "end"
    old = stock("ios")
    old.put("ip tcp window-size 8000")
    assert old.printed().index("ip tcp window-size 8000") < old.printed().index("interface FastEthernet0/0")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_blocks_in_another_order(platform: str):
    """The same lines each time, and in another order than the time before."""
    made = device(platform, reorders=True)
    shown = [show(made, "show running-config", "ferry") or "" for _ in range(4)]
    bodies = [text.splitlines()[8:] for text in shown]
    assert {tuple(sorted(body)) for body in bodies} == {tuple(sorted(bodies[0]))}
    assert all(one != other for one, other in some(pairwise(bodies)))


def test_what_is_on_by_default():
    """Setting it shows nothing, taking it out is a line, and setting it again takes that line away."""
    made = device(on_by_default=frozenset({"ip tcp selective-ack"}))
    before = made.running.printed()
    made.take_line("ip tcp selective-ack", session=1)
    assert made.running.printed() == before
    made.take_line("no ip tcp selective-ack", session=1)
    assert "no ip tcp selective-ack" in made.running.printed()
    made.take_line("ip tcp selective-ack", session=1)
    assert made.running.printed() == before


@pytest.mark.parametrize(
    ("knobs", "line", "kept"),
    [
        ({"round_to": 1460}, "ip tcp window-size 70001", "ip tcp window-size 70080"),
        ({"clamp_to": 65535}, "ip tcp window-size 70001", "ip tcp window-size 65535"),
        ({"loses_digit": True}, "ip tcp window-size 70001", "ip tcp window-size 7000"),
        ({"sack_word": "enable"}, "ip tcp selective-ack", "ip tcp selective-ack enable"),
        ({"alias_chars": 20}, "alias exec flashferry-20261122-1 me", "alias exec flashferry-20261122- me"),
        ({"hidden": ("ip tcp sel",)}, "ip tcp selective-ack", "ip tcp selective-ack (in force, not shown)"),
        (
            {"spaced_interface": True},
            "ip ftp source-interface GigabitEthernet0/0/0",
            "ip ftp source-interface GigabitEthernet 0/0/0",
        ),
    ],
)
def test_our_line_in_other_words(knobs: dict[str, object], line: str, kept: str):
    """What is kept is another line, and the judge sees it; what is taken out is it, too."""
    made = device(**knobs)
    before = made.running.in_force()
    assert made.take_line(line, session=1) == ""
    assert kept in made.running.in_force()
    made.take_line(f"no {line}", session=1)
    assert made.running.in_force() == before


def test_a_line_that_comes_along_with_ours_is_left_by_its_undoing():
    """It is no line of anybody else's, and the judge sees it."""
    made = device(sides=(("ip tcp selective-ack", "ip tcp ecn"),))
    made.take_line("ip tcp selective-ack", session=1)
    made.take_line("no ip tcp selective-ack", session=2)
    assert "ip tcp ecn" in made.running.in_force()
    assert "ip tcp ecn" not in made.shadow.in_force()


def test_the_shadow():
    """Ours is in force and not in the shadow; a colleague's work, a save, a timer and a reload happen to both."""
    made = device()
    made.take_line("ip tcp window-size 70001", session=1)
    assert made.sight().running != made.sight().expected
    made.configure_by_colleague(("ip route 10.77.0.0 255.255.0.0 10.20.40.254", "interface Loopback7", " shutdown"))
    made.save()
    made.take_line("no ip tcp window-size 70001", session=1)
    sight = made.sight()
    assert sight.running == sight.expected
    assert "ip route 10.77.0.0 255.255.0.0 10.20.40.254" in sight.expected
    assert sight.startup != sight.expected_startup
    made.reload()
    assert "ip tcp window-size 70001" in made.sight().running
    assert "ip tcp window-size 70001" not in made.sight().expected


def test_refusals_and_garbage():
    """An EXEC command is no configuration line, nor is a window that is none."""
    made = device()
    assert made.take_line("show version", session=1) == CARET
    assert made.take_line("ip tcp window-size 2000000000", session=1) == CARET
    assert made.sight().running == made.sight().expected


def test_filters():
    """`include` takes a regular expression, `_` is IOS's word border, `section` keeps what stands below."""
    text = "interface Gi1\n ip tcp adjust-mss 1360\nip tcp window-size 8000\nno ip tcp timestamp\n"
    assert filtered(text, "include ^ip tcp|^no ip tcp") == "ip tcp window-size 8000\nno ip tcp timestamp\n"
    assert filtered(text, "i _tcp_") == filtered(text, "include tcp")
    assert filtered(text, "section interface") == "interface Gi1\n ip tcp adjust-mss 1360\n"
    assert filtered(text, "exclude ip") == "interface Gi1\n"
    assert filtered(text, "begin ^no") == "no ip tcp timestamp\n"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_show_is_answered(platform: str):
    """What a controller may ask is answered on every platform; anything else is refused."""
    made = device(platform)
    for command in (
        "show version",
        "show running-config",
        "show file systems",
        "show archive",
        "show boot",
        "show users",
    ):
        assert show(made, command, "ferry")
    assert show(made, "show ip nothing", "ferry") is None
    assert directory(made, "flash:").startswith(f"Directory of {made.platform.flash}:/")
    assert "(No such file or directory)" in directory(made, "flash:absent")


def test_a_flash_that_ignores_case():
    """Another spelling is the same file."""
    flash = device(ignores_case=True).flashes[0]
    flash.put(File("IMAGE.BIN", Owner.COLLEAGUE, content=b"1"))
    assert flash.find("image.bin") is flash.find("IMAGE.BIN")
    assert device().flashes[0].find("VLAN.DAT") is None


def test_a_stack_whose_active_member_changes():
    """Another serial number, the same members, and another file system behind `flash:`."""
    made = device("stack")
    before = (made.serial, made.sight().serials)
    made.active = 1
    assert (made.serial, made.sight().serials) != before
    assert made.sight().serials == before[1]
    assert made.sight().default_flash == "member2"


@pytest.mark.parametrize(
    ("url", "port"), [("ftp://u1:p2@127.0.0.1:2121/image.bin", 2121), ("ftp://u1:p2@127.0.0.1/image.bin", 21)]
)
def test_a_url(url: str, port: int):
    """User, password, host, port and path; the password is in no representation."""
    source = source_of(url)
    assert source is not None
    assert (source.user, source.password, source.port, source.path) == ("u1", "p2", port, "image.bin")
    assert "p2" not in repr(source)
    assert source_of("bootflash:image.bin") is None


# The line.


class Line:
    """A terminal whose other side is a test."""

    def __init__(self, **knobs: object) -> None:
        self.shown = b""
        self.asked: list[Asked] = []
        self.terminal = Terminal(
            self,
            Knobs(**knobs),  # type: ignore[arg-type] # by name
            number=1,
            transcript=Transcript(),
            on_asked=self.asked.append,
            strike=lambda _: None,
        )

    def write(self, data: bytes) -> None:
        self.shown += data

    def close(self) -> None: ...

    def play(self, *typed: tuple[float, str], question: str = "erase") -> Asked:
        """Ask a question, with keys typed at their times."""

        async def scene() -> Asked:
            loop = asyncio.get_running_loop()
            for at_s, keys in typed:
                loop.call_later(at_s, self.terminal.feed, keys.encode())
            asked = self.terminal.ask(question, "Erase flash:? [confirm]", by_key=True)
            return await asyncio.wait_for(asked, PATIENCE_S)

        return asyncio.run(scene())


def test_a_key_answers():
    """One key, without Enter; what was typed when the question stood there was seen."""
    asked = Line().play((0.05, "n"))
    assert (asked.answer, asked.was_seen) == ("n", True)


def test_what_is_typed_ahead_answers_unseen():
    """IOS keeps it for whatever asks next: the judge is told that the question was not there yet."""
    line = Line(late_s={"erase": 0.1})
    asked = line.play((0.0, "\n"))
    assert (asked.answer, asked.was_seen) == ("", False)


@pytest.mark.parametrize("key", ["\x03", "\x1e"])
def test_a_question_is_left(key: str):
    """Ctrl-C and Ctrl-Shift-6 are no answers."""
    assert Line().play((0.05, key)).answer is None


@pytest.mark.parametrize("how", ["broadcast", "synchronous"])
def test_a_question_drawn_again(how: str):
    """It stands there twice, and the answer that came in between is read once."""
    redraw = Redraw(kind="erase", how=how, times=1, after_s=0.1, is_behind_answer=False)
    line = Line(redraws=(redraw,))
    asked = line.play((0.05, "n"))
    assert line.shown.count(b"Erase flash:? [confirm]") == 2
    assert (asked.answer, asked.was_seen) == ("n", True)


def test_a_session_ends_at_a_byte():
    """So much is shown and not one byte more."""
    line, dropped = Line(), []
    end: Callable[[], None] = lambda: dropped.append(True)  # noqa: E731 -- a name for what is called
    line.terminal.drop_after(5, end)
    with pytest.raises(HungUp):
        line.terminal.show("Directory of flash:/")
    assert (line.shown, dropped) == (b"Direc", [True])
