"""Sync from a folder on a host where only port 22 is open, by the rsync program over SSH.

Facts
-----

- `--append-verify` sends what follows the end of our file, and keeps nothing unless the whole is correct (rsync(1)); so
  our file is cut to verified chunks first and written in place (`--inplace`). It does not combine with `-W` and
  computes no deltas, which find nothing in compressed images; if something in the middle is wrong, deltas do find what
  is correct.
- A child that outlives us would go on writing. It ends with the thread that started it (PR_SET_PDEATHSIG, prctl(2)); in
  any case the whole's SHA-512 is checked.
- Remote paths are parsed by a shell there unless they are sent separately (`-s`).
- The sending host controls the rate: its congestion control applies, and no cap of ours, so `--bwlimit` is given for a
  known cap.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.catalogue.part import CatalogueFull
from flashferry.depot.sync.filling import (
    TURN_S,
    Filling,
    Interrupted,
    SourceRefused,
    SourceUnreachable,
    SourceWrong,
    SyncPhase,
    check,
    never,
)

_TARGET = re.compile(r"(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])"
                     r":(?P<folder>[A-Za-z0-9/._~+][A-Za-z0-9/._~+-]*)", re.ASCII)  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z0-9/._~+@:,=-]+", re.ASCII)
_STOP_S = 5.0
_MOST_WORDS = 300
_PARTIAL, _IN_FILE_IO, _OF_WORDS = 23, 11, frozenset({1, 2, 4})
"""Exit codes of rsync(1): some files could not be transferred; an error in file I/O; wrong or unknown options."""

_REFUSALS = ("permission denied", "host key verification failed", "no matching host key", "remote host identification")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


class RsyncSource(Struct, frozen=True, kw_only=True):
    """A folder on a host with SSH.

    Attributes:
        target: `USER@HOST:FOLDER` with images and their manifests.
        port: SSH port, or None: ssh's default.
        identity: File with the private key, or None: ssh's default.
        known_hosts: File with the trusted host keys, or None: the user's own.
        cap_bytes_per_s: Rate limit, or None.

    Raises:
        ConfigInvalid: The target is malformed, a file name is not usable in a command, or there is no rsync.
    """

    target: str
    port: int | None = None
    identity: Path | None = None
    known_hosts: Path | None = None
    cap_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if not _TARGET.fullmatch(self.target) or ".." in self.target.partition(":")[2].split("/"):
            raise ConfigInvalid(
                f"--rsync: expected USER@HOST:FOLDER, found {self.target[:80]!r}",
                hint="Name a user, a host and the folder with the images and their manifests",
            )
        for path in filter(None, (self.identity, self.known_hosts)):
            if not _PLAIN.fullmatch(str(path.absolute())) or not path.is_file():
                raise ConfigInvalid(
                    f"--rsync: expected a file with a name without blanks and quotes, found {path}",
                    hint="Give a file that is there, in a folder with a plain name",
                )
        if shutil.which("rsync") is None:
            raise ConfigInvalid("--rsync: expected the program rsync, found none", hint="Install rsync, at both ends")

    @property
    def by(self) -> str:
        """Return how images arrive."""
        return "rsync"

    @property
    def where(self) -> str:
        """Return the source in words."""
        return f"source {self.target}"

    @property
    def shell(self) -> str:
        """Return the command by which rsync reaches the host."""
        words = ["ssh"]
        words += [] if self.port is None else ["-p", str(self.port)]
        words += [] if self.identity is None else ["-i", str(self.identity.absolute()), "-o", "IdentitiesOnly=yes"]
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ServerAliveInterval=15", "ServerAliveCountMax=4"]
        if self.known_hosts is not None:
            options.append(f"UserKnownHostsFile={self.known_hosts.absolute()}")
        return " ".join((*words, *(word for option in options for word in ("-o", option))))

    def command(self, name: str, to: Path, *more: str) -> list[str]:
        """Return the command that fetches a file; it contains no secret."""
        cap = [] if self.cap_bytes_per_s is None else [f"--bwlimit={max(1, self.cap_bytes_per_s // 1000)}k"]
        # -L: the folder that a depot offers holds links to its images.
        own = ["rsync", "-s", "-L", "--no-motd", "--timeout=60", *cap, *more, "-e", self.shell]
        # Absolute: a path that begins with a dash would be an option, one with a colon a host.
        return [*own, f"{self.target.rstrip('/')}/{name}", str(to.absolute())]

    def fetch_small(self, name: str, most_bytes: int, *, interrupted: Interrupted = never) -> bytes:
        """Return a small file; see `Source.fetch_small`, which raises the same."""
        with tempfile.TemporaryDirectory(prefix="flashferry-") as folder:
            to = Path(folder) / "small"
            self._run(self.command(name, to, f"--max-size={most_bytes}", "-W"), name, interrupted)
            if not to.is_file():
                raise SourceWrong(f"{self.where}: {name}: expected {most_bytes} bytes at most, found more")
            return to.read_bytes()

    def fill(self, filling: Filling) -> None:
        """Fetch what is missing of an image; raises what `fetch_small` and `Filling.drop` do."""
        part = filling.part
        # No disk is filled by what is larger than it says.
        most = f"--max-size={part.manifest.size_bytes}"
        self._verify(filling, is_new=False)
        while (gap := part.gap()) is not None:
            before_bytes, before = part.size_bytes, _existing(filling)
            ways = ("--append-verify",) if gap[1] == part.manifest.size_bytes else ("--no-W", "--ignore-times")
            command = self.command(part.manifest.name, part.path, "--partial", "--inplace", most, *ways)

            def report_progress(before_bytes: int = before_bytes) -> None:
                filling.report(SyncPhase.COPY, max(part.verified_bytes, part.size_bytes))
                if part.size_bytes > before_bytes + filling.came_bytes:
                    filling.came(part.size_bytes - before_bytes - filling.came_bytes)

            try:
                self._run(command, part.manifest.name, filling.interrupted, report_progress)
            except CatalogueFull:
                self._verify(filling, is_new=False)
                raise
            self._verify(filling, is_new=True)
            if _existing(filling) == before:
                raise SourceWrong(
                    f"{self.where}: {part.manifest.name}: expected {part.manifest.size_bytes} bytes, as the manifest "
                    f"says, found a file of another size; {part.size_bytes} bytes came of it"
                )

    def _verify(self, filling: Filling, *, is_new: bool) -> None:
        """Keep the correct chunks in the file, and cut off what cannot be continued.

        Args:
            filling: The image.
            is_new: Whether all of it has just arrived, so that errors are the source's.
        """
        part, manifest = filling.part, filling.part.manifest
        wrong: list[int] = []
        for number in range(len(manifest.chunks)):
            check(filling.interrupted)
            if not part.verified[number] and manifest.span(number)[1] <= part.size_bytes:
                if part.is_right(number):
                    part.keep(number)
                else:
                    wrong.append(number)
        if wrong and not any(part.verified[wrong[0] :]):
            # Nothing behind it counts: it is appended to from here on.
            part.cut(manifest.span(wrong[0])[0])
        if wrong:
            filling.drop(tuple(wrong), is_counted=is_new)

    # One run of the program

    def _run(
        self, command: list[str], name: str, interrupted: Interrupted, on_turn: Callable[[], None] = lambda: None
    ) -> None:
        with tempfile.TemporaryFile() as words, _running(command, words.fileno()) as process:
            while process.poll() is None:
                check(interrupted)
                on_turn()
                with _waiting():
                    process.wait(TURN_S)
            on_turn()
            words.seek(0)
            said = words.read().decode("utf-8", "replace")
        if process.returncode:
            raise self._complaint(process.returncode, name, said)

    def _complaint(self, code: int, name: str, said: str) -> Exception:
        # The first line has the cause, the others the consequences.
        line = next((one.strip() for one in said.splitlines() if one.strip()), f"rsync ended with {code}")
        text = f"{self.where}: {name}: {line[:_MOST_WORDS]}"
        if code == _IN_FILE_IO and "No space left" in said:
            return CatalogueFull(text)
        if any(one in said.lower() for one in _REFUSALS):
            return SourceRefused(text, hint="See that 'ssh' with the same options lets us in, without a question")
        if code == _PARTIAL:
            return SourceRefused(text, hint="See that the image and its manifest lie in that folder")
        if code in _OF_WORDS:
            return SourceRefused(text, hint="See that rsync is of version 3.1 or later, at both ends")
        return SourceUnreachable(text)


def _existing(filling: Filling) -> tuple[object, ...]:
    """Return what a run of rsync changes if it brings anything."""
    return filling.part.size_bytes, filling.part.verified, filling.wrong_chunks


@contextmanager
def _running(command: list[str], words: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for a block, and end it afterwards."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "USER", "SSH_AUTH_SOCK") if key in os.environ}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=words,
        env={**environment, "LC_ALL": "C"},
        preexec_fn=_end_with_parent,  # noqa: PLW1509 -- one call of the system, no lock of ours
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                with _waiting():
                    process.wait(_STOP_S)
                process.kill()


@contextmanager
def _waiting() -> Iterator[None]:
    try:
        yield
    except subprocess.TimeoutExpired:
        return


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
