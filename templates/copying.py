"""Rows of `copy` and `verify`."""

from __future__ import annotations

from templates.row import Row, row


@row
class CopyResult(Row):
    """The line `N bytes copied in S secs (R bytes/sec)`; the device's own clock, flash writing included."""

    size_bytes: int
    duration_s: float
    rate_bytes_per_s: int


@row
class CopyError(Row):
    """A line `%Error opening ftp://... (reason)`, of our copy or of another job."""

    verb: str
    subject: str
    reason: str


@row
class SshNoMatch(Row):
    """The log line that says that client and server have no algorithm in common: `what` is kex, cipher, mac ..."""

    what: str
    client: str
    server: str


@row
class SshAborted(Row):
    """A line `[Connection to 192.0.2.1 aborted: error status 0]`, seen when the device is the SSH client."""

    peer: str
    status: int


@row
class VerifyDigest(Row):
    """The digest the device computed; `file` is empty where the release does not repeat it."""

    file: str
    digest: str


@row
class VerifyError(Row):
    """Why a digest could not be computed."""

    verb: str
    subject: str
    reason: str


@row
class ImageHash(Row):
    """A hash that plain `verify` prints: `origin` is Embedded, Computed or CCO; SHA2 goes over several lines."""

    origin: str
    algorithm: str
    digest: tuple[str, ...]


@row
class SignatureVerified(Row):
    """A line with which the device accepts an image; `by` says why: its signature, or its own hash only."""

    by: str
    file: str


@row
class SignatureRefused(Row):
    """A line with which the device rejects an image."""

    reason: str
