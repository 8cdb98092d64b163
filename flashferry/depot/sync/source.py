"""Sync from our own file server by HTTP or HTTPS: small files whole, an image from its first missing byte on.

Facts
-----

- A connection carries one request, and an image comes in one answer: a range with an open end, so that many chunks cost
  one login and one start of TCP.
- With `If-Range` a part is sent only of the right image; otherwise the whole file, with 200 (RFC 9110 13.1.5). If a
  source answers a range with the whole of the same image, it is read from the start, and verified chunks are skipped.
- No redirect is followed: the login would go with it.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.depot.sync.filling import (
    Connection,
    Filling,
    Interrupted,
    SourceChanged,
    SourceRefused,
    SourceUnreachable,
    SourceWrong,
    check,
    never,
    words_for,
)
from flashferry.images.manifest import CATALOGUE_NAME, Manifest

_PORTS = {"http": 80, "https": 443}
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?", re.ASCII)
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})", re.ASCII)
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_FILE = "Ask again in some seconds: an image that is new there is read before it is offered"
_NO_LIST = "Is the URL right? A depot of flashferry that offers images (--mirrors) has this file right below it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Our login at a source."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        """Have the password masked in all output."""
        keep_secret(self.password)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Our own file server as a source.

    Attributes:
        url: `https://HOST[:PORT][/FOLDER]`, or `http://`, without a login.
        login: Our login there, or None.
        ca: PEM file of trusted issuers; None: those of the system.
        stall_s: How long to wait for a silent source, > 0.

    Raises:
        ConfigInvalid: The URL is malformed, or the certificates cannot be read.
    """

    url: str
    login: Login | None = None
    ca: Path | None = None
    stall_s: float = 30.0
    by: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "by", _split(self.url).scheme)
        if self.ca is not None and self.by != "https":
            raise ConfigInvalid(
                f"--ca {self.ca}: expected an https source with it, found {self.url}",
                hint="Leave it out, or ask by https",
            )
        self._context()

    @property
    def where(self) -> str:
        """Return the source in words."""
        return f"source {self.url}"

    def fetch_small(self, name: str, most_bytes: int, *, interrupted: Interrupted = never) -> bytes:
        """Return a small file.

        Args:
            name: Its name, one word.
            most_bytes: Largest allowed size.
            interrupted: Whether to stop.

        Raises:
            SourceUnreachable: The connection broke, or nothing answers.
            SourceRefused: It refuses, or has the wrong identity.
            SourceWrong: The file is larger.
            SyncStopped: It was asked to stop.
        """
        with self.asked(name, {}, interrupted) as answer:
            self.check_status(answer, name, {HTTPStatus.OK})
            size_bytes = self._length(answer, name)
            if size_bytes > most_bytes:
                raise SourceWrong(f"{self.where}: {name}: expected {most_bytes} bytes at most, found {size_bytes}")
            data = b"".join(iter(lambda: answer.read1(min(65_536, size_bytes)), b""))
            if len(data) != size_bytes:
                raise SourceUnreachable(f"{self.where}: {name}: expected {size_bytes} bytes, found {len(data)}")
            return data

    def fill(self, filling: Filling) -> None:
        """Fetch what is missing of an image; raises what `Filling.take` and `fetch_small` do.

        Raises:
            SourceChanged: It has another image under that name.
        """
        part = filling.part
        part.reserve()
        while (gap := part.gap()) is not None:
            self._fill_gap(filling, part.manifest, *gap)

    def _fill_gap(self, filling: Filling, manifest: Manifest, first: int, end: int) -> None:
        size_bytes = manifest.size_bytes
        headers: dict[str, str] = {}
        if (first, end) != (0, size_bytes):
            last = "" if end == size_bytes else str(end - 1)
            headers = {"Range": f"bytes={first}-{last}", "If-Range": manifest.tag}
        with self.asked(manifest.name, headers, filling.interrupted) as answer:
            self.check_status(answer, manifest.name, {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT})
            tag = answer.getheader("ETag")
            if tag is not None and tag != manifest.tag:
                raise SourceChanged(f"{self.where}: {manifest.name}: expected the image {manifest.tag}, found {tag}")
            if answer.status == HTTPStatus.OK:
                first, end = 0, size_bytes
            self._check_extent(answer, manifest, first, end)
            filling.take(answer.read1, first, end)

    def _check_extent(self, answer: http.client.HTTPResponse, manifest: Manifest, first: int, end: int) -> None:
        length = self._length(answer, manifest.name)
        if answer.status == HTTPStatus.OK:
            if length != manifest.size_bytes:
                raise SourceChanged(
                    f"{self.where}: {manifest.name}: expected {manifest.size_bytes} bytes, found {length}"
                )
            return
        found = _RANGE.fullmatch(answer.getheader("Content-Range", ""))
        expected = (first, end - 1, manifest.size_bytes)
        if found is None or tuple(map(int, found.groups())) != expected or length != end - first:
            raise SourceWrong(
                f"{self.where}: {manifest.name}: expected bytes {first}-{end - 1}/{manifest.size_bytes}, "
                f"found {answer.getheader('Content-Range', 'no range')[:60]!r} and {length} bytes"
            )

    # One request

    @contextmanager
    def asked(
        self, name: str, more: dict[str, str], interrupted: Interrupted = never
    ) -> Iterator[http.client.HTTPResponse]:
        """Request a file, and yield the answer, whatever its status.

        Args:
            name: Its name below the source's URL.
            more: Header fields besides the login.
            interrupted: Whether to stop.

        Raises:
            SourceUnreachable: The connection broke, or nothing answers; an OSError of the block becomes this too.
            SourceRefused: It has the wrong identity.
            SyncStopped: It was asked to stop.
        """
        check(interrupted)
        parts = _split(self.url)
        connection = Connection(
            parts.hostname or "",
            parts.port or _PORTS[self.by],
            context=self._context(),
            stall_s=self.stall_s,
            interrupted=interrupted,
        )
        fields = {"User-Agent": "flashferry-depot", "Connection": "close", **self._authorization(), **more}
        try:
            with self._own_errors():
                connection.request("GET", f"{parts.path.rstrip('/')}/{name}", headers=fields)
                answer = connection.getresponse()
            with self._own_errors(has_answered=True):
                yield answer
        finally:
            connection.end()

    @contextmanager
    def _own_errors(self, *, has_answered: bool = False) -> Iterator[None]:
        """Convert errors of the connection."""
        try:
            yield
        except (SourceUnreachable, OSError, http.client.HTTPException) as error:
            raised = self._error_for(error)
            if isinstance(raised, SourceUnreachable):
                raised.has_answered = has_answered
            raise raised from None

    def _error_for(self, error: Exception) -> SourceUnreachable | SourceRefused:
        if isinstance(error, SourceUnreachable):
            is_named = error.message.startswith(self.where)
            return error if is_named else SourceUnreachable(f"{self.where}: {error.message}")
        if isinstance(error, ssl.SSLCertVerificationError):
            found = error.verify_message.rstrip(".")
            return SourceRefused(
                f"{self.where}: expected a certificate for it that is trusted, found: {found}",
                hint="Give its issuer's certificate (--ca; 'ca' in an agent's [source]), and the URL with its name",
            )
        if isinstance(error, ssl.SSLError):
            reason = (error.reason or "not understood").replace("_", " ").lower()
            return SourceUnreachable(f"{self.where}: TLS: {reason}")
        return SourceUnreachable(f"{self.where}: {_words_for(error)}")

    def check_status(self, answer: http.client.HTTPResponse, name: str, expected: set[HTTPStatus]) -> None:
        """Check that an answer has an expected status.

        Raises:
            SourceUnreachable: It has one that passes.
            SourceRefused: It refuses, or redirects.
            SourceChanged: The file does not have the requested bytes.
        """
        status = answer.status
        if status in expected:
            return
        said = f"{status} {answer.reason[:40]}".strip()
        if status in _TEMPORARY:
            raise SourceUnreachable(f"{self.where}: {name}: it answers {said}")
        if status in (HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.PRECONDITION_FAILED):
            raise SourceChanged(f"{self.where}: {name}: expected the image to have the bytes asked for, found {said}")
        if status // 100 == 3:
            raise SourceRefused(
                f"{self.where}: {name}: expected the file, found {said}: it sends us elsewhere",
                hint="No redirect is followed with a login: give the URL at which the files themselves are",
            )
        found, hint = self._refusal(status, name, said)
        refused = SourceRefused(f"{self.where}: {name}: {found}", hint=hint)
        refused.may_pass = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND)
        raise refused

    def _refusal(self, status: int, name: str, said: str) -> tuple[str, str]:
        """Return a refusal in words, and what to do."""
        user = "" if self.login is None else self.login.username
        if status == HTTPStatus.UNAUTHORIZED and not user:
            return "the source wants a login, found none (401)", "Give the user that it has for this site"
        if status == HTTPStatus.UNAUTHORIZED:
            hint = "Look at user and password; after some wrong ones the source takes none for a minute"
            return f"the source did not take user {user}'s password (401)", hint
        if status == HTTPStatus.FORBIDDEN:
            hint = "It lets this login in from other addresses alone: look at 'allow' in the source's file"
            return f"the source does not let {f'user {user}' if user else 'us'} in from here (403)", hint
        if status == HTTPStatus.NOT_FOUND:
            return "the source has no such file (404)", _NO_LIST if name == CATALOGUE_NAME else _NO_FILE
        return f"expected the file, found {said}", "See that a flashferry depot answers at that URL"

    def _length(self, answer: http.client.HTTPResponse, name: str) -> int:
        stated = answer.getheader("Content-Length", "")
        if answer.getheader("Content-Encoding") or answer.getheader("Transfer-Encoding") or not stated.isdecimal():
            raise SourceWrong(
                f"{self.where}: {name}: expected the bytes as they are, with their number, found neither said",
                hint="See that a flashferry depot answers at that URL, and nothing between that changes what it says",
            )
        return int(stated[:18])

    def _authorization(self) -> dict[str, str]:
        if self.login is None:
            return {}
        plain = f"{self.login.username}:{self.login.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(plain).decode('ascii')}"}

    def _context(self) -> ssl.SSLContext | None:
        if self.by != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except (OSError, ssl.SSLError) as error:
            raise ConfigInvalid(
                f"--ca {self.ca}: expected certificates in PEM, found: {error.strerror or error}",
                hint="Give the certificate of the issuer of the source's",
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _split(url: str) -> SplitResult:
    """Return the parts of a source's URL. Raises `ConfigInvalid`: it is malformed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    has_login = "@" in parts.netloc
    if parts.scheme not in _PORTS or not _is_host(parts.hostname or "") or port == 0 or has_login:
        # What was typed is not shown: it may have a password in it.
        raise ConfigInvalid(
            "--from: expected https://HOST[:PORT] or http://HOST[:PORT], without a login, found something else",
            hint="Give the user with --user, and the password when asked or in FLASHFERRY_DEPOT_PASSWORD",
        )
    if parts.query or parts.fragment or not _PATH.fullmatch(parts.path) or ".." in parts.path.split("/"):
        raise ConfigInvalid(
            f"--from: expected no more than a folder after the host, found {parts.path[:60]!r}",
            hint="Images lie beside each other there, with their manifests",
        )
    return parts


def _is_host(name: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name) is not None


def _words_for(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "it broke off"
    if isinstance(error, OSError):
        return words_for(error)
    return f"expected an answer by HTTP, found something else ({type(error).__name__})"
