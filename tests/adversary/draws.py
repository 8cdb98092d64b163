"""How each kind of behaviour is drawn: its particulars, by the dice of a seed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.adversary.behaviours import ARCHIVE, NEEDS_ENABLE, REMOVES, TWIN, Behaviour, made
from tests.adversary.router import acts
from tests.adversary.router.knobs import AAA, CARET, Redraw, Refuse, Slow, Surprise

IN_COPY = ("copy:25", "copy:50", "copy:75")
WHILE_TUNED = ("config:1:end", "copy", *IN_COPY, "copied", "verify", "verified")
ANYWHERE = ("login", "config:1", "config:1:line", *WHILE_TUNED, "config:2", "config:2:line", "config:2:end")
OUR_LINES = ("ip tcp selective-ack", "ip tcp window-size")
SHOWS = ("show version", "show running-config", "show startup-config", "dir", "show file systems")


# A1: questions.


def drawn_again(dice: Random) -> Behaviour:
    """Draw a question drawn again."""
    then = dice.choice(("erase", "erase", "overwrite", "nothing", "erase itself"))
    kind = "erase" if then == "erase itself" else "destination"
    redraw = Redraw(
        kind=kind,
        how=dice.choice(("broadcast", "broadcast", "synchronous", "plain")),
        times=dice.choice((1, 1, 2, 3)),
        after_s=dice.choice((0.05, 0.2, 0.5)),
        is_behind_answer=dice.random() < 0.4,
    )
    where = "behind its answer" if redraw.is_behind_answer else "in front of its answer"
    says = f"{kind}, {redraw.how}, {redraw.times}x after {redraw.after_s} s, {where}; then {then}"
    files = (acts.PutFile(at="copy", spelt="same"),) if then == "overwrite" else ()
    erase = {"erase_asked": True} if then.startswith("erase") else {}
    return made(says, acts=files, redraws=(redraw,), knobs=erase)


def late(dice: Random) -> Behaviour:
    """Draw a late question."""
    kind = dice.choice(("destination", "erase"))
    late_s = dice.choice((0.6, 1.5, 3.0))
    return made(f"{kind}, {late_s} s", late_s={kind: late_s}, knobs={"erase_asked": True} if kind == "erase" else {})


def in_pieces(dice: Random) -> Behaviour:
    """Draw a question in pieces."""
    kinds = dice.choice((("destination",), ("erase",), ("destination", "erase")))
    return made(
        " and ".join(kinds), in_pieces=frozenset(kinds), knobs={"erase_asked": True} if "erase" in kinds else {}
    )


def tailed(dice: Random) -> Behaviour:
    """Draw a question with syslog behind it."""
    kinds = dice.choice((("destination",), ("erase",), ("destination", "erase")))
    return made(" and ".join(kinds), tailed=frozenset(kinds), knobs={"erase_asked": True} if "erase" in kinds else {})


def other_name(dice: Random) -> Behaviour:
    """Draw another name offered."""
    name = dice.choice(("startup-config", "pcap-of-case-4711.pcap", "vlan.dat", "packages.conf", "c2800nm"))
    return made(name, destination_default=name)


_SURPRISES: dict[str, tuple[tuple[str, bool, str], ...]] = {
    "login": (
        ("Your password expires in 3 days. Change it now? [yes/no]: ", False, "nothing"),
        ("Press any key to accept the terms of use ", True, "nothing"),
    ),
    "enable": (
        ("Username: ", False, "nothing"),
        ("This will be logged. Continue? [confirm]", True, "nothing"),
        ("Enter PASSCODE: ", False, "nothing"),
    ),
    "configure": (
        ("Configuring from terminal, memory, or network [terminal]? ", False, "nothing"),
        ("Another user is configuring. Clear the lock of user colleague? [confirm]", True, "nothing"),
    ),
    "line": (
        ("This will reset all TCP sessions. Continue? [confirm]", True, "nothing"),
        ("Save the configuration first? [yes/no]: ", False, "save"),
    ),
    "end": (("Commit changes to startup-config? [yes/no]: ", False, "save"),),
    "show": (
        ("The output has 40000 lines. Continue? [y/n]: ", False, "nothing"),
        ("System configuration has been modified. Save? [yes/no]: ", False, "save"),
    ),
    "copy": (
        ("Not enough room. Delete the oldest files? [confirm]", True, "erase"),
        ("Squeeze bootflash: first? All deleted files will be removed. Continue? [confirm]", True, "erase"),
        ("Delete filename [vlan.dat]? ", False, "erase"),
        ("Format flash: before copying? [yes/no]: ", False, "erase"),
        ("Destination directory [startup]? ", False, "nothing"),
    ),
    "copying": (
        ("Low memory. Stop routing for the time of the copy? [confirm]", True, "nothing"),
        ("Delete filename [packages.conf]? ", False, "erase"),
        ("Do you want to save the configuration? [y/n]", True, "save"),
    ),
    "verify": (
        ("Verification takes a long time. Continue? [confirm]", True, "nothing"),
        ("File is in use. Delete it? [confirm]", True, "erase"),
    ),
    "delete": (("Delete all files of this name on all members? [confirm]", True, "erase"),),
    "exit": (("System configuration has been modified. Save? [yes/no]: ", False, "save"),),
}


def surprise(where: str) -> Callable[[Random], Behaviour]:
    """Return how a question that nobody expects is drawn, for a place."""

    def draw(dice: Random) -> Behaviour:
        text, by_key, harm = dice.choice(_SURPRISES[where])
        needs = {"enable": NEEDS_ENABLE, "delete": REMOVES}.get(where, "")
        surprise = Surprise(where=where, text=text, by_key=by_key, harm=harm, times=dice.choice((1, 1, 9)))
        if where == "delete":
            drop = acts.Drop(at="copy:50", how="abort")
            return made(f"{text!r}", acts=(drop,), surprises=(surprise,), keeps_part=True, needs=needs)
        return made(f"{text!r}{' always' if surprise.times > 1 else ''}", surprises=(surprise,), needs=needs)

    return draw


# A2: what a colleague does.


def revert(dice: Random) -> Behaviour:
    """Draw an armed timer."""
    at, fuse_s = (
        dice.choice((*IN_COPY, "copied", "verify", "config:2", "config:2:line")),
        dice.choice((0.5, 1.5, 3.0, 5.0)),
    )
    return made(f"armed at {at}, fires {fuse_s} s later", acts=(acts.ArmRevert(at=at, fuse_s=fuse_s),), needs=ARCHIVE)


def locked(dice: Random) -> Behaviour:
    """Draw a held lock."""
    at, for_s = dice.choice(("login", "config:1:end", "copy:50", "verified")), dice.choice((1.0, 3.0, 0.0))
    span = f"for {for_s} s" if for_s else "for good"
    return made(f"from {at} on, {span}", acts=(acts.Lock(at=at, for_s=for_s),))


def archived(dice: Random) -> Behaviour:
    """Draw an archive taken."""
    at = dice.choice(WHILE_TUNED)
    return made(at, acts=(acts.ArchiveNow(at=at),), needs=ARCHIVE)


def saved(dice: Random) -> Behaviour:
    """Draw a save."""
    at = dice.choice(("config:1:line", *WHILE_TUNED, "config:2", "config:2:line"))
    return made(at, acts=(acts.Save(at=at),))


def our_lines(dice: Random) -> Behaviour:
    """Draw a colleague at our very lines."""
    lines = dice.choice((
        ("ip tcp window-size 80000",), ("no ip tcp window-size",), ("no ip tcp selective-ack",),
        ("ip tcp window-size 4128", "no ip tcp selective-ack"),
    ))  # fmt: skip
    at = dice.choice((*IN_COPY, "copied", "verified", "config:2:end"))
    return made(f"{', '.join(lines)} at {at}", acts=(acts.Configure(at=at, lines=lines),))


def works_on(dice: Random) -> Behaviour:
    """Draw a colleague at other lines."""
    lines = dice.choice((
        ("ip route 10.77.0.0 255.255.0.0 10.20.40.254",),
        ("ip tcp synwait-time 10",),
        ("snmp-server contact night shift",),
        ("alias exec wr write memory",),
        ("username deputy privilege 15 secret 9 $9$Colleague7Secret",),
        ("interface Loopback7", " ip address 10.7.7.7 255.255.255.255"),
    ))  # fmt: skip
    at = dice.choice(ANYWHERE)
    return made(f"{lines[0]!r} at {at}", acts=(acts.Configure(at=at, lines=lines),))


def renamed(dice: Random) -> Behaviour:
    """Draw another host name."""
    name = dice.choice(("edge-new-name-of-the-branch-office-7", "r9", "R1"))
    at = dice.choice(ANYWHERE)
    return made(f"{name} at {at}", acts=(acts.Configure(at=at, lines=(f"hostname {name}",)),))


# A3, A10: who answers.


def swapped(dice: Random) -> Behaviour:
    """Draw another device."""
    at, back = (
        dice.choice(("config:1:end", *IN_COPY, "copied", "verify", "verified", "config:2")),
        dice.choice((0, 0, 1, 2)),
    )
    says = f"at {at}{f', for {back} logins' if back else ''}"
    return made(says, acts=(acts.Swap(at=at, back_after_logins=back),), needs=TWIN)


def pair(dice: Random) -> Behaviour:
    """Draw a pair of devices."""
    at = dice.choice((*IN_COPY, "copied", "verified"))
    return made(f"from {at} on", acts=(acts.TakeTurns(at=at),), needs=TWIN)


def switched_over(dice: Random) -> Behaviour:
    """Draw another active member."""
    at = dice.choice(("config:1:end", *IN_COPY, "copied", "verify", "verified", "config:2", "config:2:line"))
    return made(at, acts=(acts.SwitchOver(at=at),))


# A5: our line in other words, or late.


def figures(dice: Random) -> Behaviour:
    """Draw a window in other figures."""
    if dice.random() < 0.5:
        step = dice.choice((1460, 10_000, 131_072))
        return made(f"rounded up to {step}", round_to=step)
    most = dice.choice((65535, 40000, 131072))
    return made(f"at most {most}", clamp_to=most)


def refused(dice: Random) -> Behaviour:
    """Draw refused lines."""
    words = dice.choice((AAA, CARET, "% Authorization failed.\n"))
    what, pattern, session, until = dice.choice((
        ("the window, always", r"ip tcp window-size", 1, 999),
        ("SACK, always", r"ip tcp selective-ack", 1, 999),
        ("aliases, always", r"(no )?alias", 1, 999),
        ("undoing aliases", r"no alias", 1, 999),
        ("any undoing, once", r"no ", 2, 2),
        ("any undoing, always", r"no ", 1, 999),
        ("undoing of the window, once", r"no ip tcp window-size", 2, 2),
        ("everything from the second session on", r".", 2, 999),
        ("everything in the second session", r".", 2, 2),
        ("everything", r".", 1, 999),
    ))  # fmt: skip
    return made(what, refuse=(Refuse(pattern=pattern, words=words, session=session, until=until),))


# A6: text that looks like configuration.

_LIKE_OURS = (
    "ip tcp window-size 12345", "ip tcp selective-ack", "no ip tcp selective-ack", "ip tcp window-size 1000000",
    "archive", "configuration mode exclusive auto", "ip ftp source-interface Loopback99", "end",
    "alias exec flashferry-0 nobody",
)  # fmt: skip


def _like_ours(dice: Random, more: int) -> tuple[str, ...]:
    """Return a line that looks like one of ours, and others that look like configuration."""
    return (dice.choice(_LIKE_OURS[:4]), *dice.sample(_LIKE_OURS[4:], more))


def banner(dice: Random) -> Behaviour:
    """Draw a banner."""
    lines = _like_ours(dice, dice.choice((0, 1, 2)))
    return made(", ".join(lines), stock=(("banner motd ^C", (*lines, "^C")),))


def macro(dice: Random) -> Behaviour:
    """Draw a macro."""
    lines = _like_ours(dice, dice.choice((0, 1)))
    return made(", ".join(lines), stock=(("macro name night-shift", (*lines, "@")),))


def certificate(dice: Random) -> Behaviour:
    """Draw a certificate."""
    line = dice.choice(_LIKE_OURS[:4])
    body = (" certificate ca 02", "  30820321 30820209", line, "  \tquit")
    return made(line, stock=(("crypto pki certificate chain OLD", body),))


# A7: files.


def changes(dice: Random) -> Behaviour:
    """Draw a file that changes."""
    how = dice.choice(("shrinks", "shrinks", "another byte"))
    at = dice.choice(("copied", "verify", "verified", "config:2") if how == "shrinks" else ("copied",))
    return made(f"{how} at {at}", acts=(acts.ChangeFile(at=at, how=how),))


def colleagues_file(dice: Random) -> Behaviour:
    """Draw a colleague's file."""
    spelt = dice.choice(("same", "upper", "title"))
    at = dice.choice(("config:1", "config:1:end", "copy"))
    return made(f"{spelt} case, at {at}", acts=(acts.PutFile(at=at, spelt=spelt),), ignores_case=spelt != "same")


def there_already(dice: Random) -> Behaviour:
    """Draw an image that a colleague has put there already."""
    holds = dice.choice(("right", "right", "a wrong byte", "another"))
    there = acts.PutFile(at="login", spelt="same", holds=holds)
    if holds == "right" and dice.random() < 0.4:
        shrinks = acts.ChangeFile(at="verify", how="shrinks")
        return made("right, and shrinks as it is hashed", acts=(there, shrinks))
    return made(holds, acts=(there,))


def odd_rows(dice: Random) -> Behaviour:
    """Draw odd rows of `dir`, with a colleague's file at the target, or with what a broken copy leaves there."""
    how = dice.choice(("no date", "blank date", "odd permissions"))
    if dice.random() < 0.5:
        holds = dice.choice(("right", "another"))
        return made(
            f"{how}; {holds} image there", acts=(acts.PutFile(at="login", spelt="same", holds=holds),), bare_rows=how
        )
    drop = acts.Drop(at="copy:50", how="abort")
    return made(f"{how}; lost at copy:50", acts=(drop,), bare_rows=how, keeps_part=True)


def wrapped(dice: Random) -> Behaviour:
    """Draw a listing at 80 columns with a colleague's file at the target, on a device that may ask nothing."""
    stock = (("file prompt quiet", ()),) if dice.random() < 0.6 else ()
    holds = dice.choice(("right", "another", "a wrong byte"))
    put = acts.PutFile(at=dice.choice(("login", "config:1:end")), spelt="same", holds=holds)
    asks, wraps = "asks nothing" if stock else "asks", dice.choice(("after", "inside"))
    return made(f"{wraps} a row; {holds} image there at {put.at}; {asks}", acts=(put,), stock=stock, wraps=wraps)


def deletes_elsewhere(dice: Random) -> Behaviour:
    """Draw a part on flash, and a device that asks about another file system when it is to be removed."""
    where = dice.choice(("flash-2", "usbflash0", "bootflash-2"))
    drop = acts.Drop(at="copy:50", how="abort")
    return made(f"{where}; lost at copy:50", acts=(drop,), needs=REMOVES, deletes_elsewhere=where, keeps_part=True)


def restricted(dice: Random) -> Behaviour:
    """Draw which configurations the user sees as a stub."""
    shown = dice.choice((frozenset({"running"}), frozenset({"startup"}), frozenset({"running", "startup"})))
    return made(" and ".join(sorted(shown)), restricted=shown)


# B16 and the rest.


def endless(dice: Random) -> Behaviour:
    """Draw endless output."""
    command = dice.choice((
        *SHOWS, "login", "terminal width", "configure", "copy", "verify", "show ip interface brief", "show privilege",
    ))  # fmt: skip
    return made(command, endless=command)


def behind(dice: Random) -> Behaviour:
    """Draw output behind the prompt."""
    command = dice.choice((*SHOWS, "copy", "verify", "configure"))
    text = dice.choice(
        ("ip tcp window-size 999\n{prompt}", "and one line more\n", "\n{prompt}", "Destination filename [x]? ")
    )
    return made(f"{text!r} after {command}", behind_prompt=(command, text, dice.choice((0.0, 0.1, 0.4))))


def slow(dice: Random) -> Behaviour:
    """Draw slow output."""
    command, rate = (
        dice.choice(("dir", "show file systems", "show startup-config", "show archive")),
        dice.choice((300.0, 800.0)),
    )
    return made(f"{command} at {rate:.0f} bytes/s", slow=(Slow(command=command, bytes_per_s=rate),))


def dropped(dice: Random) -> Behaviour:
    """Draw dropped sessions."""
    at, size, how = (
        dice.choice(ANYWHERE),
        dice.choice((0, 1, 17, 60, 400)),
        dice.choice(("abort", "abort", "close", "eof")),
    )
    return made(f"{how} {size} bytes after {at}", acts=(acts.Drop(at=at, how=how, after_bytes=size),))


def shut_out(dice: Random) -> Behaviour:
    """Draw refused logins."""
    at, how = dice.choice((*WHILE_TUNED, "config:2", "config:2:line")), dice.choice(("tcp", "tcp", "password"))
    for_s = dice.choice((0.5, 2.0, 5.0))
    drop, refuse = acts.Drop(at=at, how="abort"), acts.RefuseLogins(at=at, how=how, for_s=for_s)
    return made(f"{how} for {for_s} s after {at}", acts=(drop, refuse))


def reloaded(dice: Random) -> Behaviour:
    """Draw a reload."""
    at, down_s = dice.choice(("config:1:line", *WHILE_TUNED, "config:2", "config:2:line")), dice.choice((0.5, 1.5, 3.0))
    return made(f"at {at}, {down_s} s", acts=(acts.Reload(at=at, down_s=down_s),), keeps_part=dice.random() < 0.5)


def part(dice: Random) -> Behaviour:
    """Draw a part that stays."""
    at = dice.choice(IN_COPY)
    return made(f"session lost at {at}", acts=(acts.Drop(at=at, how="abort"),), keeps_part=True)


def outlives(dice: Random) -> Behaviour:
    """Draw a copy that outlives its session."""
    at = dice.choice(("copy:25", "copy:50", "copy:75"))
    return made(f"lost at {at}", acts=(acts.Drop(at=at, how=dice.choice(("abort", "eof"))),), copy_survives=True)


def ends_badly(dice: Random) -> Behaviour:
    """Draw a copy that fails in the end."""
    words = dice.choice(("I/O error", "Not enough memory", "Undefined error", "Bad file number"))
    return made(words, fails_with=words, keeps_part=dice.random() < 0.5)


def full(dice: Random) -> Behaviour:
    """Draw a flash that runs full."""
    room = dice.choice((8_000, 40_000, 90_000))
    return made(f"after {room} bytes", room_bytes=room, keeps_part=dice.random() < 0.5)


def quoted(dice: Random) -> Behaviour:
    """Draw a quoted ticket."""
    where = dice.choice(("accessing", "error", "wrapped", "syslog", "refusal"))
    fails = {"fails_with": "Undefined error"} if where in {"error", "wrapped"} else {}
    return made(f"in {where}", quotes_ticket=where, knobs=fails)


def dirty(dice: Random) -> Behaviour:
    """Draw control characters."""
    where = tuple(dice.sample(("hostname", "model", "errors"), dice.choice((1, 2))))
    return made(" and ".join(where), dirty=where, knobs={"fails_with": "Undefined error"} if "errors" in where else {})


def lookalike(dice: Random) -> Behaviour:
    """Draw a line like a prompt."""
    command = dice.choice(SHOWS)
    return made(command, lookalike=command)


def unknown(dice: Random) -> Behaviour:
    """Draw unknown commands."""
    commands = dice.choice((
        ("show archive config rollback timer",), ("show configuration lock",), ("show privilege",),
        ("show archive",), ("show archive config rollback timer", "show configuration lock", "show privilege"),
        ("show ip interface brief",), ("terminal no monitor",), ("verify /sha512",), ("show startup-config",),
    ))  # fmt: skip
    return made(", ".join(commands), unknown=commands)


def broadcast(dice: Random) -> Behaviour:
    """Draw a message to all."""
    text = dice.choice(
        ("lunch?", "r1#", "Erase flash: before copying? [confirm]", "%Error opening ftp://x (Timed out)")
    )
    at, after_s = dice.choice(ANYWHERE), dice.choice((0.0, 0.05, 0.3))
    return made(f"{text!r} {after_s} s after {at}", acts=(acts.Broadcast(at=at, after_s=after_s, text=text),))
