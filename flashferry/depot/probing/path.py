"""Probe a path to a source: copy by each method in rounds, and rank the methods.

The far end is prepared and measured in one shell session that stays open.

Commands are written to its `sh`, so that none needs another login. The session makes a folder there, which the shell's
trap removes at the end, even when the connection breaks.

The processor time of copies at the far end is read from `/proc/PID/stat` of the listening sshd, which any user may
read: it grows by a session's processor time when that ends. If the session's sshd has no such parent (started per login
by inetd or systemd), or /proc is hidden, it is reported as not seen.
"""

from __future__ import annotations

import base64
import random
import re
import secrets
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core import units
from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing import copying as measured
from flashferry.depot.probing.copying import LISTENING, Copier, Sample
from flashferry.depot.probing.figures import Ceilings, Login, Row, Trial, best_of, in_order, login_of, row_of
from flashferry.depot.probing.findings import (
    PIECE_BYTES,
    Group,
    PathFound,
    ProbeAsked,
    Report,
    Shrinking,
    best_with_mac,
    shrinking_of,
)
from flashferry.depot.probing.methods import (
    COPIERS,
    SQUEEZERS,
    Method,
    Offers,
    SshAccess,
    common,
    names_in,
    proposal_in,
    refusal_in,
)
from flashferry.depot.probing.web import WebSource

_ANSWER_S = 60.0

_FIRST_ANSWER_S = 30.0

_END_S = 5.0
_SETTLE_S = 0.15
_CHUNK = 65_536

_FIND_LISTENER = r"""
p=$PPID; top=; n=0
while [ "$p" -gt 1 ] && [ $n -lt 6 ]; do
  read -r line < /proc/$p/stat || break
  rest=${line##*) }; name=${line#*\(}; name=${name%%)*}
  case $name in sshd*) top="$top $p" ;; *) break ;; esac
  set -- $rest; p=$2; n=$((n+1))
done
echo $top
"""
"""Prints the sshd processes above the shell, the nearest first: session, monitor, listener."""
_KILL = "for p in $j; do kill -- $p 2>/dev/null; done"
_LEAST_CHAIN = 2
_COPY_TOOLS = ("scp", "sftp-server", "rsync", "dd", "nc", "gzip", "pigz", "lzop", "zstd", "python3", "head", "base64")


class FarShell:
    """A shell at the far end, for a with block.

    Attributes:
        folder: Our folder there.
        tools: The programs for copies that exist there.

    Raises:
        ConfigInvalid: The login fails, or there is no shell.
    """

    sees_commands = False
    """Started commands are the shell's children, and it ends last."""

    def __init__(self, access: SshAccess) -> None:
        self._access = access
        self._mark = f"ferry-{secrets.token_hex(8)}"
        self._buffer = b""
        self.folder, self.tools, self._listener = "", frozenset[str](), 0

    def __enter__(self) -> FarShell:
        self._process = subprocess.Popen(
            [*self._access.ssh(), "exec sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def sees_cpu(self) -> bool:
        """Whether processor time of the far end is known."""
        return self._listener > 0

    def _prepare(self) -> None:
        self.ask("LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin", limit_s=_FIRST_ANSWER_S)
        folder = self.ask('umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/ferry-probe-XXXXXX") && echo "$d"')
        if not folder.startswith("/"):
            raise ConfigInvalid(
                f"{self._access.shown}: expected room for a sample, found none: {folder or 'mktemp failed'}",
                hint="Free some room in its /tmp, or name a file that is there (--sample PATH)",
            )
        self.folder = folder
        # Also where the line breaks: then its input ends, and with it the shell.
        self.ask(f"trap '{_KILL}; rm -rf {shlex.quote(folder)}' EXIT; trap 'exit 1' HUP TERM; s=$(command -v setsid)")
        names = " ".join(_COPY_TOOLS)
        self.tools = frozenset(self.ask(f"for t in {names}; do command -v $t >/dev/null && echo $t; done").split())
        self._find_listener()

    def _find_listener(self) -> None:
        chain = [int(word) for word in self.ask(_FIND_LISTENER).split() if word.isdigit()]
        # One alone is a session that no other of its kind has started.
        self._listener = chain[-1] if len(chain) >= _LEAST_CHAIN else 0

    def ask(self, command: str, *, limit_s: float = _ANSWER_S) -> str:
        """Run a command in the shell, and return its output and errors.

        Raises:
            ConfigInvalid: The session has ended, or did not answer in time.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            # A command that reads would else swallow the commands behind it.
            self._process.stdin.write(f"{{ {command}\n}} 2>&1 </dev/null; echo; echo {self._mark} $?\n".encode())
            self._process.stdin.flush()
        return self._answer(limit_s)

    def _answer(self, limit_s: float) -> str:
        assert self._process.stdout is not None
        ends_s = time.monotonic() + limit_s
        end = re.compile(rb"\n" + self._mark.encode() + rb" \d+\n")
        while (found := end.search(self._buffer)) is None:
            left_s = ends_s - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], (), (), left_s)[0]:
                raise ConfigInvalid(
                    f"{self._access.shown}: expected an answer within {limit_s:.0f} s, found none",
                    hint="See what holds that host up, then try again",
                )
            got = self._process.stdout.read1(_CHUNK)  # type: ignore[attr-defined] # a buffered reader
            if not got:
                raise self._gone()
            self._buffer += got
        text, self._buffer = self._buffer[: found.start()], self._buffer[found.end() :]
        return text.decode(errors="replace").strip()

    def _gone(self) -> ConfigInvalid:
        assert self._process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return refusal_in(self._process.stderr.read().decode(errors="replace"), at=self._access.shown)

    def reaped_s(self) -> float | None:
        """Return the processor time of the far sshd and all ended sessions; None: unknown."""
        if not self._listener:
            return None
        text = self.ask(f"read -r line < /proc/{self._listener}/stat && echo ${{line##*) }}; getconf CLK_TCK")
        words = text.split()
        try:
            return sum(int(ticks) for ticks in words[11:15]) / int(words[-1])
        except (ValueError, IndexError):
            return None

    def piece(self, path: str, offset_blocks: int, block_bytes: int) -> bytes:
        """Return a block of a file there."""
        text = self.ask(f"dd if={shlex.quote(path)} bs={block_bytes} skip={offset_blocks} count=1 2>/dev/null | base64")
        with suppress(ValueError):
            return base64.b64decode(text)
        return b""

    def start(self, command: str, *, port: int) -> None:
        """Start a command that listens on a port, and return when it does; it ends with the session."""
        # In a group of its own, so that all of a pipeline can be ended.
        started = f'$s sh -c {shlex.quote(command)} >/dev/null 2>&1 </dev/null & j="$j -$!"'
        self.ask(f"{started}; {LISTENING.format(port=port)}")

    def cpu_s(self) -> float | None:
        """Return the processor time of all that has ended there; None: unknown."""
        if not self._listener:
            return None
        # A session's sshd is waited for by its monitor, and that by the listener, a moment after we see its end.
        time.sleep(_SETTLE_S)
        return self.reaped_s()

    def remove(self, path: str) -> None:
        """Remove a file there, if it exists."""
        self.ask(f"rm -f {shlex.quote(path)}")

    def size_bytes(self, path: str) -> int | None:
        """Return the size of a file there; None: missing or not readable."""
        text = self.ask(f"[ -f {shlex.quote(path)} ] && wc -c < {shlex.quote(path)}").strip()
        return int(text) if text.isdigit() else None

    def close(self) -> None:
        """End the session; the shell removes its folder."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(b"exit\n")
                self._process.stdin.flush()
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


Copy = Callable[[Method, int], Trial]
"""Copies once by a method, in a round; round 0 does not count."""


class Measured(Struct, frozen=True, kw_only=True):
    """All trials of some methods, including copies of nothing."""

    methods: tuple[Method, ...]
    trials: tuple[Trial, ...]

    def of(self, key: str) -> tuple[Trial, ...]:
        """Return the trials of a method."""
        return tuple(one for one in self.trials if one.key == key)

    def login(self, method: Method) -> Login:
        """Return the cost of copying nothing by a method."""
        return login_of(self.of(method.of_nothing.key))

    def rows(self, ceilings: Ceilings) -> list[Row]:
        """Return the figures of each method."""
        return [row_of(one.key, self.of(one.key), self.login(one), ceilings) for one in self.methods]


def in_rounds(
    methods: Sequence[Method],
    copy: Copy,
    *,
    rounds: int,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    warms_up: bool = True,
) -> Measured:
    """Copy by each method in each round; a method that failed twice is left out.

    Args:
        methods: The methods.
        copy: Copies once.
        rounds: Number of counted rounds, >= 1.
        seed: Of their random orders.
        report: Shows a line of progress.
        interrupted: Whether to stop.
        warms_up: Whether a round that does not count comes first.
    """
    chance = random.Random(f"{seed} {len(methods)}")  # noqa: S311 -- an order, no secret
    nothing = {one.of_nothing.key: one.of_nothing for one in methods if one.name != "http"}
    trials: list[Trial] = []
    for number in range(0 if warms_up else 1, rounds + 1):
        order = [*methods, *nothing.values()]
        chance.shuffle(order)
        report(f"round {number} of {rounds}" if number else "a round to warm up, which does not count")
        for method in order:
            if interrupted():
                return Measured(methods=tuple(methods), trials=tuple(trials))
            if _has_failed(trials, method.key):
                continue
            trial = copy(method, number)
            # One that was ended for us shows nothing of its method.
            if (number or trial.error) and not (trial.error and interrupted()):
                trials.append(trial)
    return Measured(methods=tuple(methods), trials=tuple(trials))


def _has_failed(trials: Sequence[Trial], key: str) -> bool:
    return sum(1 for one in trials if one.key == key and one.error) > 1


PILOT_BYTES = 4 << 20
LEAST_BYTES, MOST_BYTES = 8 << 20, 256 << 20
_COPY_S = 3.0
_DISK_BYTES = 64 << 20
_LOGIN_S = 45.0
_LINK_S = 1.0
_SETTING = re.compile(r"^(hostname|port|proxyjump|proxycommand) (.+)$", re.MULTILINE)
_SSH_PORT = 22


def offers_at(access: SshAccess) -> Offers:
    """Log in once, and return the algorithms that both ends have.

    Raises:
        ConfigInvalid: There is no ssh here, the login fails, or they have no cipher in common.
    """
    ours, macs = (_own(kind) for kind in ("cipher", "mac"))
    done = _logged_in(access, ours, macs)
    theirs = proposal_in(done.stderr)
    if theirs is not None:
        offers = common(ours, macs, theirs, at=access.shown)
    if done.returncode or theirs is None:
        raise refusal_in(done.stderr, at=access.shown)
    return offers


def _logged_in(access: SshAccess, ours: Sequence[str], macs: Sequence[str]) -> subprocess.CompletedProcess[str]:
    words = [*access.ssh(), "true"]
    # All of ours are offered, and not the default ones alone: else what is old enough would never be reached.
    words[-3:-3] = ["-vv", "-o", f"Ciphers={','.join(ours)}", "-o", f"MACs={','.join(macs)}"]
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_LOGIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigInvalid(
            f"{access.shown}: expected a login within {_LOGIN_S:.0f} s, found none", hint="Try it by hand: ssh"
        ) from None


def _own(kind: str) -> tuple[str, ...]:
    try:
        done = subprocess.run(["ssh", "-Q", kind], capture_output=True, text=True, check=False)
    except OSError:
        raise ConfigInvalid("ssh: expected OpenSSH's client on this host, found none", hint="Install it") from None
    return names_in(done.stdout)


class PathProbe:
    """One probe of a path.

    Args:
        asked: The request.
        report: Shows a line of progress.
        interrupted: Whether to stop; what was measured is returned.
    """

    def __init__(
        self, asked: ProbeAsked, *, report: Report = lambda _: None, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._asked, self._report, self._interrupted = asked, report, interrupted
        self._notes: list[str] = []
        self._ceilings = Ceilings()
        self._groups: list[Group] = []
        self._shrinking = Shrinking(ratio=1.0, sample_bytes=0)
        self._offers: Offers | None = None
        self._size_bytes = asked.size_bytes or 0
        self._copier: Copier | None = None
        self._controls: tuple[str, ...] = ()

    def run(self) -> PathFound:
        """Measure, and return the result.

        Raises:
            ConfigInvalid: The request is inconsistent, or the source cannot be reached or used.
        """
        self._asked.check()
        with ExitStack() as stack:
            try:
                scratch = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix=".ferry-probe-", dir=self._asked.folder)
                )
            except OSError as error:
                raise ConfigInvalid(
                    f"--folder {self._asked.folder}: expected a folder to copy into ({error.strerror})",
                    hint="Name one of the disk that images are to be on",
                ) from None
            self._measure_to_the_end(Path(scratch), stack)
        return PathFound(
            source=self._asked.source,
            at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            size_bytes=self._size_bytes,
            rounds=self._asked.rounds,
            ceilings=replace(self._ceilings, notes=tuple(self._notes[: self._ceiling_notes])),
            shrinking=self._shrinking,
            groups=tuple(self._groups),
            offers=self._offers,
            notes=tuple(self._notes[self._ceiling_notes :]),
            is_whole=not self._interrupted(),
        )

    def _measure_to_the_end(self, scratch: Path, stack: ExitStack) -> None:
        """Measure; an error after an interruption is ignored."""
        try:
            self._measure(scratch, stack)
        except ConfigInvalid:
            if not self._interrupted():
                raise

    def _measure(self, scratch: Path, stack: ExitStack) -> None:
        far: FarShell | None = None
        if self._asked.access is not None:
            self._report(f"{self._asked.access.shown}: what both ends have")
            self._offers = offers_at(self._asked.access)
            far = stack.enter_context(FarShell(self._asked.access))
        self._report("ceilings of disk and link")
        self._measure_ceilings(scratch, far)
        self._ceiling_notes = len(self._notes)
        if self._interrupted():
            return
        if self._offers is not None:
            self._notes += self._offers.refusals()
        self._prepare(scratch, far)
        self._by_ways(scratch, far)
        if far is not None and self._offers is not None:
            self._by_macs(self._offers)
            self._by_compression(self._offers)
            self._by_pipes(far)

    _ceiling_notes = 0

    # What path and ends carry.

    def _measure_ceilings(self, scratch: Path, far: FarShell | None) -> None:
        wrote, read = measured.disk_here(scratch, _DISK_BYTES)
        found = replace(self._ceilings, write_here_bytes_per_s=wrote, read_here_bytes_per_s=read)
        if far is None:
            self._notes.append("The source's disk: not to be seen by HTTP.")
            self._notes.append("Link: no bare TCP to be had by HTTP; the fastest of its rows is the nearest to it.")
            self._ceilings = found
            return
        wrote_far, read_far = _disk_far(far)
        if wrote_far is None:
            self._notes.append("The source's disk: its dd does not print its rate.")
        if not far.sees_cpu:
            self._notes.append(
                "Processor time at the source: not seen, for its sshd has no listener that we could read."
            )
        found = replace(found, write_far_bytes_per_s=wrote_far, read_far_bytes_per_s=read_far)
        self._ceilings = self._with_link(found, far)

    def _with_link(self, found: Ceilings, far: FarShell) -> Ceilings:
        assert self._asked.access is not None
        host, port, is_direct = _resolved(self._asked.access)
        found = replace(found, rtt_s=measured.connect_s(host, port) if is_direct else None)
        if found.rtt_s is None:
            self._notes.append("Round trip: not to be had, for ssh goes by another host.")
        if self._asked.raw_port is None:
            self._notes.append("Link: its ceiling cannot be had, for only SSH reaches the source (--raw-port PORT).")
        elif "python3" not in far.tools:
            self._notes.append("Link: its ceiling cannot be had, for the source has no python3 to send a bare stream.")
        else:
            link = self._bare_tcp(far, host, self._asked.raw_port)
            if link is None:
                self._notes.append(f"Link: nothing came from port {self._asked.raw_port} of the source.")
            return replace(found, link_bytes_per_s=link)
        return found

    def _bare_tcp(self, far: FarShell, host: str, port: int) -> float | None:
        """Return the rate of bare TCP; a small stream determines the size of the one that counts."""
        size = PILOT_BYTES
        for _ in range(2):
            rate = measured.bare_tcp(
                (), lambda command: far.start(command, port=port), host, port, size_bytes=size, direction="pull"
            )
            if rate is None:
                return None
            size = min(max(int(rate * _LINK_S), PILOT_BYTES), 4 * MOST_BYTES)
        return rate

    # The sample at the source, and what copies it.

    def _prepare(self, scratch: Path, far: FarShell | None) -> None:
        if self._asked.web is not None:
            self._measure_web(self._asked.web)
        if far is None:
            self._size_bytes = min(self._size_bytes, MOST_BYTES)
            return
        if self._asked.size_bytes is None:
            self._size_bytes = self._size_by_pilot(self._copier_of(scratch, far, PILOT_BYTES), far)
        self._copier = self._copier_of(scratch, far, self._size_bytes)
        if self._asked.web is None:
            path = self._asked.sample or f"{far.folder}/sample"
            size = far.size_bytes(path) or 0
            self._shrinking = shrinking_of(size, lambda number: far.piece(path, number, PIECE_BYTES))

    def _measure_web(self, web: WebSource) -> None:
        whole = web.size_bytes()
        self._shrinking = shrinking_of(whole, lambda number: web.piece(number, PIECE_BYTES))
        self._controls = web.controls()
        if not self._controls:
            self._notes.append("HTTP: the source lets no client choose its congestion control; it is as it sends.")
        self._size_bytes = min(self._size_bytes or whole, whole)

    def _size_by_pilot(self, copier: Copier, far: FarShell) -> int:
        """Return the bytes of a copy of about three seconds, by a first small one."""
        pilot = Method(name=next((name for name in COPIERS if name in far.tools), "scp"))
        trial, nothing = copier.copy(pilot, 0), copier.copy(pilot.of_nothing, 0)
        if trial.error:
            raise ConfigInvalid(
                f"{self._asked.source}: a first small copy by {pilot.name} {trial.error}",
                hint="Try the same by hand: what stands in its way stands in every copy's",
            )
        rate = PILOT_BYTES / max(trial.wall_s - nothing.wall_s, trial.wall_s / 10)
        return int(min(max(rate * _COPY_S, LEAST_BYTES), MOST_BYTES)) >> 20 << 20

    def _copier_of(self, scratch: Path, far: FarShell, size_bytes: int) -> Copier:
        assert self._asked.access is not None
        sample, nothing = f"{far.folder}/sample", f"{far.folder}/nothing"
        far.ask(f": > {nothing}")
        return Copier(
            access=self._asked.access,
            far=far,
            direction="pull",
            samples={
                "random": Sample(source=sample, size_bytes=self._sample_there(far, sample, size_bytes)),
                "nothing": Sample(source=nothing, size_bytes=0),
            },
            target=str(scratch / "copy"),
            port=self._asked.raw_port,
            interrupted=self._interrupted,
        )

    def _sample_there(self, far: FarShell, path: str, size_bytes: int) -> int:
        """Make the sample, and return its size: the operator's file may be smaller."""
        of = shlex.quote(self._asked.sample or "/dev/urandom")
        printed = far.ask(f"head -c {size_bytes} {of} > {path} && wc -c < {path}", limit_s=_LOGIN_S * 4)
        if not printed.isdigit() or int(printed) == 0:
            option = f"--sample {self._asked.sample}" if self._asked.sample else self._asked.source
            raise ConfigInvalid(
                f"{option}: expected a sample of {size_bytes} bytes at the source, found: {printed}",
                hint="Name a file with --sample that the login may read there",
            )
        return int(printed)

    # Group by group.

    def _by_ways(self, scratch: Path, far: FarShell | None) -> None:
        methods: list[Method] = []
        if self._asked.web is not None and self._asked.wants("http"):
            methods += [Method(name="http", control=control) for control in self._controls or ("",)]
        if far is not None and self._offers is not None:
            for name in COPIERS:
                if self._asked.wants(name) and self._is_there(name, far):
                    methods += [Method(name=name, cipher=cipher) for cipher in self._offers.ciphers]
        self._group("ways", methods, scratch)

    def _is_there(self, name: str, far: FarShell) -> bool:
        """Return whether both ends have a program, and note if not.

        Raises:
            ConfigInvalid: It was asked for by name.
        """
        # sftp needs no program there that could be found: its subsystem shows in the first copy.
        lacking = [end for end, has in (("here", shutil.which(name)), ("at the source", name in far.tools)) if not has]
        if name == "sftp":
            lacking = [end for end in lacking if end == "here"]
        if lacking and name in self._asked.ways:
            raise ConfigInvalid(
                f"--method {name}: expected {name} at both ends, found none {' or '.join(lacking)}",
                hint=f"Install it there, or leave out --method {name}",
            )
        if lacking:
            self._notes.append(f"{name}: left out, for there is none {' or '.join(lacking)}.")
        return not lacking

    def _by_macs(self, offers: Offers) -> None:
        if self._interrupted():
            return
        rows = [row for group in self._groups for row in group.rows]
        program = next((name for name in COPIERS if any(_is_by(row, name) for row in rows)), "")
        cipher = best_with_mac([row for row in rows if _is_by(row, program)], offers.ciphers)
        if not cipher:
            self._notes.append("MACs: not measured, for no cipher was timed that one goes with.")
            return
        self._group("macs", [Method(name=program, cipher=cipher, mac=mac) for mac in offers.macs])

    def _by_compression(self, offers: Offers) -> None:
        if self._interrupted():
            return
        best = best_of(row for group in self._groups for row in group.rows if group.name == "ways" and " " in row.key)
        words = best.key.split(" ") if best is not None else []
        if not offers.compresses or len(words) < 2 or words[1] not in offers.ciphers:
            self._notes.append("Compression by ssh: not measured, for not both ends have it.")
            return
        self._group(
            "compression", [Method(name=words[0], cipher=words[1], compress=compress) for compress in (False, True)]
        )

    def _by_pipes(self, far: FarShell) -> None:
        if not self._asked.pipes:
            return
        squeezers = ["", *(name for name in SQUEEZERS if self._is_there(name, far))]
        transports = ["dd"]
        if self._asked.raw_port is None:
            self._notes.append("nc: left out, for only SSH reaches the source (--raw-port PORT).")
        elif self._is_there("nc", far):
            transports.append("nc")
        best = best_of(row for row in (row for group in self._groups for row in group.rows) if " " in row.key)
        cipher = next((word for word in (best.key.split(" ") if best else ()) if self._has(word)), "")
        methods = [
            Method(name=name, cipher=cipher if name == "dd" else "", squeeze=squeeze, block_bytes=block)
            for name in transports
            for squeeze in squeezers
            for block in self._asked.blocks
        ]
        self._group("pipes", methods)

    def _has(self, cipher: str) -> bool:
        return self._offers is not None and cipher in self._offers.ciphers

    def _group(self, name: str, methods: Sequence[Method], scratch: Path | None = None) -> None:
        if not methods or self._interrupted():
            return
        self._report(f"{name}: {len(methods)} methods, {units.megabytes(self._size_bytes)} each")

        done = in_rounds(
            methods,
            lambda method, number: self._copy(method, number, scratch),
            rounds=self._asked.rounds,
            seed=self._asked.seed,
            report=lambda text: self._report(f"{name}: {text}"),
            interrupted=self._interrupted,
        )
        login_s = {one.name: round(done.login(one).wall_s, 4) for one in methods if one.name != "http"}
        rows = done.rows(self._ceilings)
        if self._interrupted():
            # What was not started has not failed.
            rows = [row for row in rows if row.rate is not None or row.error]
        self._notes += [f"{row.key}: {row.error}" for row in rows if row.rate is None and row.error]
        if rows:
            self._groups.append(Group(name=name, rows=_best_first(rows), login_s=login_s))

    def _copy(self, method: Method, number: int, scratch: Path | None) -> Trial:
        if method.name == "http":
            assert self._asked.web is not None
            assert scratch is not None
            return self._asked.web.copy(
                method, number, size_bytes=self._size_bytes, target=scratch / "copy", interrupted=self._interrupted
            )
        assert self._copier is not None
        return self._copier.copy(method, number)


def _best_first(rows: Sequence[Row]) -> tuple[Row, ...]:
    return (*in_order(rows), *(row for row in rows if row.rate is None))


def _is_by(row: Row, program: str) -> bool:
    return bool(program) and row.rate is not None and row.key.split(" ")[0] == program


def _disk_far(far: FarShell) -> tuple[float | None, float | None]:
    """Return write and read rate of the source's disk, by its own dd; None: not printed."""
    path, count = shlex.quote(f"{far.folder}/disk"), _DISK_BYTES >> 20
    wrote = measured.rate_by_dd(far.ask(f"dd if=/dev/zero of={path} bs=1048576 count={count} conv=fsync"))
    # The first one drops what is in the cache, so that it comes from the disk again.
    far.ask(f"dd if={path} iflag=nocache count=0")
    read = measured.rate_by_dd(far.ask(f"dd if={path} of=/dev/null bs=1048576"))
    far.remove(f"{far.folder}/disk")
    return wrote, read


def _resolved(access: SshAccess) -> tuple[str, int, bool]:
    """Return host and port that ssh uses, and whether it connects directly."""
    words = [*access.ssh()]
    words[-2:-2] = ["-G"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = dict(_SETTING.findall(done.stdout))
    is_direct = all(found.get(name, "none") == "none" for name in ("proxyjump", "proxycommand"))
    return found.get("hostname", access.host), int(found.get("port", access.port or _SSH_PORT)), is_direct


def probe_path(
    asked: ProbeAsked, *, report: Report = lambda _: None, interrupted: Callable[[], bool] = lambda: False
) -> PathFound:
    """Measure a path; see `PathProbe`."""
    started_s = time.monotonic()
    found = PathProbe(asked, report=report, interrupted=interrupted).run()
    if not found.is_whole:
        return found
    report(f"measured in {time.monotonic() - started_s:.0f} s")
    return found
