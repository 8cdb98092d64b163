"""Prepare and measure the far end of an SSH path, in one shell session that stays open.

Commands are written to its `sh`, so that none needs another login. The session makes a folder there, which the shell's
trap removes at the end, even when the connection breaks.

The processor time of copies at the far end is read from `/proc/PID/stat` of the listening sshd, which any user may
read: it grows by a session's processor time when that ends. If the session's sshd has no such parent (started per login
by inetd or systemd), or /proc is hidden, it is reported as not seen.
"""

from __future__ import annotations

import base64
import re
import secrets
import select
import shlex
import subprocess
import time
from contextlib import suppress
from types import TracebackType

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing.copying import LISTENING
from flashferry.depot.probing.methods import SshAccess, refusal_in

_ANSWER_S = 60.0
_LOGIN_S = 30.0
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
        self.ask("LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin", limit_s=_LOGIN_S)
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
