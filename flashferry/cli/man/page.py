"""The manual page, flashferry(1), made of the command tree, the table of exit codes and that of the environment. Pure.

It is written in the macros `man`, which groff and mandoc both read, and has no date: it changes with the program alone.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from flashferry.cli.man.surroundings import FILES, variables
from flashferry.cli.tree import Argument, Command, Option
from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode

_DESCRIPTION = """\
flashferry has Cisco IOS and IOS-XE routers pull OS images over a WAN. It sets their TCP window for the time of the
copy, serves the image by FTP, HTTP, SCP, HTTPS or SFTP, verifies its hash on the device, puts the configuration back
as it was and proves it. What a device was is in the journal before the first line is sent; after a crash, 'flashferry
recover' finishes the job.

Devices come from an inventory ('flashferry init' begins one), credentials from the inventory, the environment, the
system's keyring, a secrets command or a prompt, never from an option. Results go to standard output, everything else
to standard error."""

_EXAMPLES = (
    ("A first inventory, and what this host grants:", "flashferry init routers\nflashferry doctor"),
    (
        "Look at its devices without changing anything, then time copies of one:",
        "flashferry check -i routers --image IMAGE.bin --reach\nflashferry probe -i routers --image IMAGE.bin -H NAME",
    ),
    (
        "Show what would be sent to one device, then stage it:",
        (
            "flashferry stage -i routers --image IMAGE.bin -H NAME --dry-run\n"
            "flashferry stage -i routers --image IMAGE.bin -H NAME"
        ),
    ),
    (
        "An upgrade night: a plan that fits the window, the run, and its report:",
        (
            "flashferry plan -i routers --image-rules images.yaml --window 22:00-05:00 -o night.json\n"
            "flashferry stage -i routers --plan night.json --approve\n"
            "flashferry report latest --format html -o night.html"
        ),
    ),
    ("After a crash or a kill:", "flashferry status\nflashferry recover"),
)
"""What people do, each with the lines to type."""

_TYPED = {"dry-run": "stage --dry-run", "run-control": "run pause|continue|stop|approve"}
"""What is typed for results that are called otherwise."""

_WIDTH = 78

_SEE_ALSO = "ssh(1), systemctl(1), sysctl(8)"


def manual_page(tree: Command, *, version: str) -> str:
    """Return the page.

    Args:
        tree: The command line.
        version: The release that it is of.
    """
    lines = (
        r".\" Made by 'flashferry man'.",
        f'.TH FLASHFERRY 1 "" "flashferry {version}" "User Commands"',
        # Words to be typed are not hyphenated, nor spread over a line.
        ".nh",
        ".ad l",
        *_section("NAME"),
        rf"flashferry \- {_escaped(_name_line(tree.told))}",
        *_section("SYNOPSIS"),
        ".nf",
        *(one for command in tree.commands for one in _synopsis(command)),
        ".fi",
        *_section("DESCRIPTION"),
        *_paragraphs(_DESCRIPTION.split("\n\n")),
        *_section("COMMANDS"),
        *_commands(tree),
        *_section("EXIT STATUS"),
        *_exit_codes(),
        *_section("ENVIRONMENT"),
        *_environment(tree),
        *_section("FILES"),
        *(line for name, told in FILES for line in _entry(rf"\fI{_escaped(name)}\fR", [told])),
        *_section("EXAMPLES"),
        *_examples(),
        *_section("SEE ALSO"),
        *_text(_SEE_ALSO),
    )
    return "\n".join(lines) + "\n"


def _name_line(told: str) -> str:
    """Return the line that `apropos` finds: small at its beginning, without a full stop at its end."""
    return told[:1].lower() + told[1:].rstrip(".")


def _section(name: str) -> tuple[str]:
    return (f".SH {name}",)


def _synopsis(command: Command) -> Iterator[str]:
    """Yield a line for a command; of a family one that names those below it."""
    below = "|".join(one.name for one in command.commands)
    rest = rf"\fI{_escaped(below)}\fR" if below else _arguments(command)
    required = "".join(f" {_option_words(one)}" for one in command.options if one.is_required)
    options = r" [\fIoptions\fR]" if _own(command) or below else ""
    yield rf"\fB{_escaped(command.words)}\fR{required}{options} {rest}".rstrip()


def _arguments(command: Command) -> str:
    return " ".join(rf"\fI{_escaped(one.value.placeholder)}\fR" for one in command.arguments)


def _commands(tree: Command) -> Iterator[str]:
    for command in tuple(tree)[1:]:
        if command.commands and not _own(command):
            yield f'.SS "{_escaped(command.words)} ..."'
            yield from _paragraphs(command.told.split("\n\n"))
            continue
        yield f'.SS "{_escaped(command.words)}"'
        yield from _paragraphs(command.told.split("\n\n"))
        for argument in command.arguments:
            yield from _argument(argument)
        for option in _own(command):
            yield from _entry(_option_words(option), [option.told, _behind(option)])


def _own(command: Command) -> tuple[Option, ...]:
    """Return a command's options but that for its help, which all have."""
    return tuple(one for one in command.options if "--help" not in one.names)


def _argument(one: Argument) -> tuple[str, ...]:
    return _entry(rf"\fI{_escaped(one.value.placeholder)}\fR", [one.told])


def _option_words(one: Option) -> str:
    names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in one.names)
    return names if one.value is None else rf"{names} \fI{_escaped(one.value.placeholder.strip('<>'))}\fR"


def _behind(one: Option) -> str:
    return f"Variable: {one.variable}." if one.variable else ""


def _exit_codes() -> Iterator[str]:
    """Yield the codes behind 'stage', and below each what it means behind other verbs."""
    for code in ExitCode:
        yield from _entry(rf"\fB{int(code)}\fR", [_capital(code.meaning) + "."])
    yield ".PP"
    yield from _text("Behind these commands they mean:")
    for verb, meanings in VERB_MEANINGS.items():
        typed = _TYPED.get(verb) or verb.replace("-", " ", 1)
        yield from (".TP", rf"\fB{_escaped(typed)}\fR")
        for number, (code, meaning) in enumerate(meanings.items()):
            yield from (".br",) if number else ()
            yield from _text(f"{int(code)}: {meaning}")


def _environment(tree: Command) -> Iterator[str]:
    yield from _text("What is typed goes before what the environment says.")
    for one in variables(tree):
        option = f"As {one.option}: " if one.option else ""
        yield from _entry(rf"\fB{_escaped(one.name)}\fR", [option + one.told])


def _examples() -> Iterator[str]:
    for number, (told, typed) in enumerate(_EXAMPLES):
        yield from (".PP",) if number else ()
        yield from (*_text(told), ".PP", ".RS 4", ".nf", *map(_escaped, typed.splitlines()), ".fi", ".RE")


def _entry(head: str, told: Iterable[str]) -> tuple[str, ...]:
    return (".TP", head, *_text(" ".join(one for one in told if one)))


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield from _text(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _text(text: str) -> tuple[str, ...]:
    """Return a text in lines of a source's usual width."""
    return tuple(map(_escaped, textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)))


def _escaped(text: str) -> str:
    r"""Return a line of which roff takes nothing for its own: no escape, no request, hyphens that can be copied."""
    safe = text.replace("\\", r"\e").replace("-", r"\-")
    safe = "".join(sign if sign.isascii() else rf"\[u{ord(sign):04X}]" for sign in safe)
    return re.sub(r"^([.'])", r"\\&\1", safe)
