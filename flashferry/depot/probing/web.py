"""Copy a sample from our own source by HTTP(S), over the same connection as a sync.

TLS, login, waiting and redirects work as in `flashferry.depot.sync.source`; here a part of one file is requested and
discarded.

A client can request a congestion control by the header `Flashferry-Congestion-Control`; the answer's header of that
name states the one in use. A source without that header uses its default.
"""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.depot.probing.figures import Trial
from flashferry.depot.probing.methods import Method
from flashferry.depot.sync.filling import (
    PIECE_BYTES,
    Interrupted,
    SourceChanged,
    SourceRefused,
    SourceUnreachable,
    SyncStopped,
    never,
)
from flashferry.depot.sync.source import Login, Source

CONTROL_HEADER = "Flashferry-Congestion-Control"
CONTROLS = ("bbr", "cubic")
"""Those of our server (`flashferry.httpserver.head`), which only its own listeners may import."""
_FILE = re.compile(r'(?P<place>(?:http|https)://[^/?#]+)/(?P<name>[!"$-~]+)', re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSource:
    """A file that a source offers.

    Attributes:
        url: Its address, without a login.
        user: User name; empty: none.
        ca: File of the trusted issuers, instead of the system's; None: the system's.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None

    def check(self) -> None:
        """Check that the address is HTTP(S) without a login, and that the issuers can be read.

        Raises:
            ConfigInvalid: It is not so.
        """
        keep_secret(self.password)
        login, is_there, _ = self.url.partition("://")[2].partition("/")[0].rpartition("@")
        if is_there:
            keep_secret(login.partition(":")[2])
            raise ConfigInvalid(
                "--from: expected an address without a password, found a login that everybody on this host can read",
                hint="Give the login by --user, and the password by --password-file",
            )
        self._parts()

    def _parts(self) -> tuple[Source, str]:
        """Return the source, and the name of the file below it.

        Raises:
            ConfigInvalid: The address names no file, or the issuers cannot be read.
        """
        found = _FILE.fullmatch(self.url)
        if found is None:
            raise ConfigInvalid(
                f"--from: expected http://HOST/FILE or https://HOST/FILE, found {self.url!r}",
                hint="Name a file that the source offers",
            )
        login = Login(username=self.user, password=self.password) if self.user else None
        return Source(url=found["place"], login=login, ca=self.ca), found["name"]

    @contextmanager
    def answer(
        self, first: int, last: int, control: str = "", *, interrupted: Interrupted = never
    ) -> Iterator[http.client.HTTPResponse]:
        """Request a part of the file, both bytes included, and yield the answer.

        Raises:
            ConfigInvalid: The source cannot be reached, has the wrong identity, or refuses.
            SyncStopped: The operator asked to stop.
        """
        source, name = self._parts()
        fields = {"Range": f"bytes={first}-{last}"} | ({CONTROL_HEADER: control} if control else {})
        try:
            with source.asked(name, fields, interrupted) as answer:
                source.check_status(answer, name, {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT})
                self._check_part(answer)
                yield answer
        except SourceUnreachable as error:
            hint = "Check address and port, and that the source serves"
            raise ConfigInvalid(error.message, hint=hint) from None
        except (SourceRefused, SourceChanged) as error:
            raise ConfigInvalid(error.message, hint=error.hint) from None

    def _check_part(self, answer: http.client.HTTPResponse) -> None:
        if answer.status != HTTPStatus.PARTIAL_CONTENT:
            raise ConfigInvalid(
                f"{self.url}: expected a part of the file (206), found {answer.status}",
                hint="Name a source that answers range requests",
            )

    def size_bytes(self) -> int:
        """Return the size of the file.

        Raises:
            ConfigInvalid: As of `answer`; or the source does not state it.
        """
        with self.answer(0, 0) as answer:
            whole = (answer.getheader("Content-Range") or "").rpartition("/")[2]
            answer.read()
        if not whole.isdecimal():
            raise ConfigInvalid(
                f"{self.url}: expected the size of the file in the answer, found none",
                hint="Name a source that answers range requests",
            )
        return int(whole)

    def controls(self) -> tuple[str, ...]:
        """Return the congestion controls that a client can choose; empty: none."""
        found = []
        for name in CONTROLS:
            with self.answer(0, 0, name) as answer:
                if (answer.getheader(CONTROL_HEADER) or "").lower() == name:
                    found.append(name)
                answer.read()
        return tuple(found)

    def piece(self, number: int, block_bytes: int) -> bytes:
        """Return a block of the file."""
        with self.answer(number * block_bytes, (number + 1) * block_bytes - 1) as answer:
            return answer.read()

    def copy(
        self, method: Method, number: int, *, size_bytes: int, target: Path, interrupted: Interrupted = never
    ) -> Trial:
        """Copy a part of the file from its start; a failure is recorded in the trial, never raised."""
        started_s, before = time.monotonic(), os.times()
        error = self._fault_of_copy(method, size_bytes, target, interrupted)
        after = os.times()
        cpu_s = after.user + after.system - before.user - before.system
        return Trial(
            key=method.key,
            number=number,
            size_bytes=size_bytes,
            # The first bytes are timed too: this way has next to no login.
            wall_s=time.monotonic() - started_s,
            here_cpu_s=cpu_s,
            here_busy_s=cpu_s,
            error=error,
        )

    def _fault_of_copy(self, method: Method, size_bytes: int, target: Path, interrupted: Interrupted) -> str:
        """Copy, and return a failure in words; empty: none."""
        try:
            with (
                target.open("wb", buffering=0) as out,
                self.answer(0, size_bytes - 1, method.control, interrupted=interrupted) as answer,
            ):
                count = _poured(answer, out, target)
        except (ConfigInvalid, SyncStopped) as fault:
            return fault.message
        except OSError as fault:
            return f"{target}: {fault.strerror}"
        return "" if count == size_bytes else f"expected {size_bytes} bytes, found {count}"


def _poured(answer: http.client.HTTPResponse, out: BinaryIO, target: Path) -> int:
    """Write what arrives, and return how many bytes. Raises `ConfigInvalid`: writing fails."""
    count = 0
    while piece := answer.read1(PIECE_BYTES):
        try:
            count += out.write(piece)
        except OSError as error:
            raise ConfigInvalid(
                f"{target}: cannot be written: {error.strerror}", hint="Name a folder with room by --folder"
            ) from None
    return count
