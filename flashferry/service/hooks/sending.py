"""Notices to hooks: their bodies (signed JSON, Slack, Teams, mail, syslog), and their delivery with retries.

Facts
-----

- Syslog: RFC 5424 6 (`<PRI>VERSION TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG`); a MSG that is not
  known to be UTF-8 has no byte order mark: ours is JSON in ASCII. MSGID has at most 32 characters. Over TCP each
  message is preceded by its length (RFC 6587 3.4.1).
- Slack interprets `<...>`, as in `<!channel>`: `&`, `<` and `>` are escaped (Slack, "Formatting text for app
  surfaces"). Teams takes a TextRun of an adaptive card literally, and interprets marks in a TextBlock (Adaptive
  Cards, "RichTextBlock").
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import queue
import smtplib
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret, masked, sanitize
from flashferry.service.audit import facts_of
from flashferry.service.notices import Notice, NoticeKind
from flashferry.service.outbound import Deadline, HttpAnswer, HttpRequest, NoAnswer, ask
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.service.settings import HookSettings, MailSettings, ServiceSettings, secret_of
from flashferry.store.service import hooks as rows
from flashferry.store.service.audit import ChainedEntry, entries
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.hooks import HookRow

if TYPE_CHECKING:
    from email.message import EmailMessage

SIGNATURE = "X-Flashferry-Signature"
TIMESTAMP = "X-Flashferry-Timestamp"
APP_NAME = "flashferry"
_FACILITY_AUDIT, _FACILITY_LOCAL0 = 13, 16
_ERROR, _WARNING, _INFORMATIONAL = 3, 4, 6
_ERRORS = frozenset({NoticeKind.RUN_DEAD, NoticeKind.NOT_RESTORED})

_WARNINGS = frozenset(
    {
        NoticeKind.OUTSIDE_WINDOW,
        NoticeKind.SCHEDULE_MISSED,
        NoticeKind.SCHEDULE_REFUSED,
        NoticeKind.EMERGENCY_LOGIN,
    }
)

_LONGEST_FACT = 200
_LONGEST_SUBJECT = 150
_LONGEST_SENTENCE = 1000
"""With the longest facts, within the 28 KiB that Teams takes (Microsoft Learn, "Create Incoming Webhooks")."""
_SHOWN_FACTS = 10


class Post(Struct, frozen=True, kw_only=True):
    """An HTTP POST: JSON body, and headers besides those of every request."""

    body: bytes
    headers: Mapping[str, str]


def webhook(notice: Notice, notice_id: str, secret: str | None, now: datetime) -> Post:
    """Return the POST of a notice for a webhook, signed if there is a secret.

    `notice_id` is the idempotency key, equal in all attempts. The signature covers the time `now`, so that receivers
    can refuse replayed notices.
    """
    body = notice.to_json().encode()
    stamp = str(int(now.timestamp()))
    headers = {"Idempotency-Key": notice_id, "X-Flashferry-Kind": notice.kind.value, TIMESTAMP: stamp}
    if secret is not None:
        headers[SIGNATURE] = f"sha256={signature(secret, stamp, body)}"
    return Post(body=body, headers=headers)


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Return the hexadecimal HMAC-SHA256 over time stamp, a dot, and body."""
    return hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def slack(notice: Notice) -> Post:
    """Return the POST of a notice for an incoming webhook of Slack or a compatible receiver."""
    link = f"\n<{_for_slack(notice.link)}|Open it>" if notice.link else ""
    lines = [f"*{_for_slack(_sentence(notice))}*", *(_for_slack(line) for line in _facts(notice))]
    return _json_post({"text": "\n".join(lines) + link})


def teams(notice: Notice) -> Post:
    """Return the POST of a notice as an adaptive card, for a Teams workflow that a webhook starts."""
    runs = [{"type": "TextRun", "text": _sentence(notice), "weight": "Bolder"}]
    blocks = [runs, *([{"type": "TextRun", "text": line}] for line in _facts(notice))]
    card: dict[str, object] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": inlines} for inlines in blocks],
    }
    if notice.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open it", "url": notice.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return _json_post({"type": "message", "attachments": [attachment]})


def mail(notice: Notice, notice_id: str, *, sender: str, to: str) -> EmailMessage:
    """Return the mail message of a notice."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = f"[flashferry] {sanitize(notice.sentence)}"[:_LONGEST_SUBJECT]
    message["From"] = sender
    message["To"] = to
    message["Date"] = datetime.fromisoformat(notice.at)
    message["Message-ID"] = f"<{notice_id}@{sender.rpartition('@')[2] or 'flashferry.invalid'}>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [sanitize(notice.sentence), "", *_facts(notice), "", f"kind: {notice.kind}", f"at: {notice.at}"]
    message.set_content("\n".join([*lines, *([notice.link] if notice.link else [])]) + "\n")
    return message


def syslog_line(notice: Notice, *, hostname: str, process: int, most_bytes: int | None = None) -> bytes:
    """Return the syslog message of a notice; one longer than `most_bytes` omits the facts and says so."""
    stamp = datetime.fromisoformat(notice.at).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    name = "".join(sign for sign in hostname if "!" <= sign <= "~")[:255] or "-"
    head = f"<{_priority(notice)}>1 {stamp} {name} {APP_NAME} {process} {notice.kind.value[:32]} - "
    line = (head + notice.to_json()).encode()
    if most_bytes is None or len(line) <= most_bytes:
        return line
    kept = {key: notice.facts[key] for key in ("seq", "hash") if key in notice.facts}
    short = replace(notice, facts={**kept, "left_out": "too long for this way; take TCP"})
    return (head + short.to_json()).encode()


def framed(line: bytes) -> bytes:
    """Return a syslog message with its length in front, as TCP requires (RFC 6587 3.4.1)."""
    return str(len(line)).encode() + b" " + line


def _priority(notice: Notice) -> int:
    is_audit = notice.kind in (NoticeKind.AUDIT_ENTRY, NoticeKind.AUDIT_HEAD)
    facility = _FACILITY_AUDIT if is_audit else _FACILITY_LOCAL0
    is_warning = notice.kind in _WARNINGS or notice.facts.get("outcome") in ("refused", "failed")
    severity = _ERROR if notice.kind in _ERRORS else _WARNING if is_warning else _INFORMATIONAL
    return facility * 8 + severity


def _sentence(notice: Notice) -> str:
    return sanitize(notice.sentence)[:_LONGEST_SENTENCE]


def _facts(notice: Notice) -> list[str]:
    """Return the first facts of a notice as text lines."""
    lines = []
    for key, value in list(notice.facts.items())[:_SHOWN_FACTS]:
        text = value if isinstance(value, str) else json.dumps(value)
        if text:
            lines.append(sanitize(f"{key}: {text}"[:_LONGEST_FACT]))
    return lines


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json_post(document: Mapping[str, object]) -> Post:
    return Post(body=json.dumps(document, ensure_ascii=False).encode(), headers={})


CONNECT_S, ANSWER_S = 5.0, 10.0
WHOLE_S = 30.0
"""Limit of one attempt by HTTP or mail."""
MOST_MAIL_BYTES = 65_536
"""Limit of a mail server's answers in one connection."""
REFUSAL_S = 0.5
"""How long a TLS receiver has for an alert; most send nothing."""
SYSLOG_PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
MOST_UDP_BYTES = 8192
_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_REDIRECTS = range(300, 400)

_READ_BYTES, _SHOWN_CHARACTERS = 4096, 200

_SECRET_PATH = 16
"""Shorter paths are words of every page, such as `/hook`."""


class NotSent(Exception):
    """A receiver did not accept a notice; the sentence has no secrets.

    Args:
        sentence: Why, without any secret.
        wait_s: How long the receiver asks to wait, seconds, or None.
        is_final: Whether no later attempt can succeed.
        answer: What the receiver answered, as `send` returns it.
    """

    def __init__(self, sentence: str, *, wait_s: float | None = None, is_final: bool = False, answer: str = "") -> None:
        super().__init__(masked(sentence))
        self.sentence = masked(sentence)
        self.wait_s = wait_s
        self.is_final = is_final
        self.answer = answer


class Outgoing(Struct, frozen=True, kw_only=True):
    """A notice being sent, with the idempotency key of all attempts; `is_test`: the receiver's answer is read."""

    notice_id: str
    notice: Notice
    is_test: bool = False


def send(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:
    """Send a notice to a hook's receiver once; return its answer to a test by HTTP, else empty.

    The answer is its status and the first 200 characters of its body, without secrets: `200: ok`.

    Raises:
        NotSent: It was not accepted, or that is unknown.
    """
    try:
        return _SENDERS[hook.form](settings, hook, outgoing, now)
    except ConfigInvalid as error:
        raise NotSent(str(error)) from None


def secret_for(settings: ServiceSettings, hook: HookRow) -> str | None:
    """Return a hook's secret, or None if it has none. Raises `ConfigInvalid` if it cannot be read."""
    if hook.secret_name is None:
        return None
    return secret_of(settings.hooks.get(hook.secret_name, HookSettings()).secret, f"[hooks.{hook.secret_name}]")


def syslog_address(target: str) -> tuple[str, str, int]:
    """Parse `udp://HOST[:PORT]`, `tcp://…`, `tls://…` or `unix:///PATH` into scheme, host or path, and port.

    Raises:
        ValueError: The address is not valid.
    """
    parts = urlsplit(target)
    if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
        return parts.scheme, parts.path, 0
    if parts.scheme in SYSLOG_PORTS and parts.hostname and not (parts.path or parts.query or parts.username):
        return parts.scheme, parts.hostname, parts.port or SYSLOG_PORTS[parts.scheme]
    raise ValueError(target)


def _send_webhook(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:
    post = webhook(outgoing.notice, outgoing.notice_id, secret_for(settings, hook), now)
    return _post(hook.target, post, reads=outgoing.is_test)


def _send_slack(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:  # noqa: ARG001
    return _post_to_secret(settings, hook, slack(outgoing.notice), reads=outgoing.is_test)


def _send_teams(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:  # noqa: ARG001
    return _post_to_secret(settings, hook, teams(outgoing.notice), reads=outgoing.is_test)


def _post_to_secret(settings: ServiceSettings, hook: HookRow, post: Post, *, reads: bool) -> str:
    """Post to an address that is a secret. Raises `NotSent`."""
    url = secret_for(settings, hook) or ""
    # A receiver may repeat the path alone, as error pages do.
    if len(path := urlsplit(url).path) >= _SECRET_PATH:
        keep_secret(path)
    return _post(url, post, reads=reads)


def _post(url: str, post: Post, *, reads: bool) -> str:
    """Post to an address; return the answer if it `reads` it. Raises `NotSent` unless the answer is a success."""
    import httpx  # slow to import

    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"flashferry/{version('flashferry')}",
        **post.headers,
    }
    limits = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    # Ignore proxies and netrc of this host.
    client = httpx.Client(timeout=limits, trust_env=False, follow_redirects=False, verify=_trusted())
    request = HttpRequest(method="POST", url=url, headers=headers, content=post.body)
    try:
        answer = ask(client, request, most_s=WHOLE_S, most_bytes=0, first_bytes=_READ_BYTES if reads else 0)
    except NoAnswer as error:
        raise NotSent(error.sentence) from None
    shown = _shown(answer) if reads else ""
    _check_status(answer.status, answer.headers.get("retry-after", ""), shown)
    return shown


def _shown(answer: HttpAnswer) -> str:
    """Return an answer for people; masked before it is cut, so that no part of a secret remains."""
    lines = " ".join(answer.body.decode("utf-8", "replace").split())
    text = masked(sanitize(lines))[:_SHOWN_CHARACTERS]
    return f"{answer.status}: {text}" if text else f"{answer.status}, without a body"


@cache
def _trusted() -> ssl.SSLContext:
    """Return the system's trusted certificates, cached: reading them takes longer than sending."""
    return ssl.create_default_context()


def _check_status(status: int, wait: str, answer: str) -> None:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    if status in _REDIRECTS:
        raise NotSent(f"expected an answer of 200 to 299, found {status}; redirects are not followed", answer=answer)
    # No other refusal is final: an administrator may mend the receiver while we try on.
    raise NotSent(
        f"expected an answer of 200 to 299, found {status}",
        wait_s=float(wait) if wait.isascii() and wait.isdecimal() and status in (*_AGAIN, 503) else None,
        is_final=status == HTTPStatus.GONE,
        answer=answer,
    )


def _send_mail(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:  # noqa: ARG001
    if settings.mail is None:
        raise NotSent("expected a server for mail in the configuration, found no [mail]")
    message = mail(outgoing.notice, outgoing.notice_id, sender=settings.mail.sender, to=hook.target)
    try:
        _hand_over(settings.mail, message)
    except smtplib.SMTPResponseException as error:
        raise NotSent(f"the mail server says {error.smtp_code} to {type(error).__name__}") from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = ", ".join(sorted({str(code) for code, _ in error.recipients.values()}))
        raise NotSent(f"the mail server takes none of the recipients ({codes})") from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotSent(f"mail could not be handed over: {sanitize(str(error)) or type(error).__name__}") from None
    return ""


def _hand_over(settings: MailSettings, message: EmailMessage) -> None:
    context = _trusted()
    with Deadline(WHOLE_S) as deadline:
        server: smtplib.SMTP
        try:
            if settings.security == "tls":
                server = _TlsMailServer(deadline, settings.host, settings.port, timeout=ANSWER_S, context=context)
            else:
                server = _MailServer(deadline, settings.host, settings.port, timeout=ANSWER_S)
            with server:
                if settings.security == "starttls":
                    server.starttls(context=context)
                if settings.user:
                    server.login(settings.user, secret_of(settings.secret, "[mail]"))
                server.send_message(message)
        except (smtplib.SMTPException, OSError):
            if deadline.is_over:
                raise TimeoutError(f"no answer within {WHOLE_S:g} s") from None
            raise


class _MailServer(smtplib.SMTP):
    """SMTP connection limited by a deadline and by a number of answered bytes."""

    def __init__(self, deadline: Deadline, *given: Any, **named: Any) -> None:
        self._deadline = deadline
        super().__init__(*given, **named)

    def getreply(self) -> tuple[int, bytes]:
        """Read one answer within the limits."""
        if self.file is None and self.sock is not None:
            self._deadline.watch(self.sock)
            self.file = _CountedLines(self.sock)
        return super().getreply()


class _TlsMailServer(_MailServer, smtplib.SMTP_SSL):
    """The same over TLS from the first byte."""


class _CountedLines:
    """Reader of a mail server's lines, limited to `MOST_MAIL_BYTES` in all."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self._left = MOST_MAIL_BYTES

    def readline(self, most: int) -> bytes:
        """Return the next line, or a part of it. Raises `OSError` above the limit."""
        line = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"expected answers of at most {MOST_MAIL_BYTES:,} bytes, found longer ones")
        return line

    def close(self) -> None:
        """Close the file, not the connection."""
        self._file.close()


def _send_syslog(settings: ServiceSettings, hook: HookRow, outgoing: Outgoing, now: datetime) -> str:  # noqa: ARG001
    scheme, where, port = syslog_address(hook.target)
    is_datagram = scheme not in ("tcp", "tls")
    most = MOST_UDP_BYTES if is_datagram else None
    line = syslog_line(outgoing.notice, hostname=socket.gethostname(), process=os.getpid(), most_bytes=most)
    try:
        if scheme == "unix":
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(CONNECT_S)
                sender.sendto(line, where)
        elif is_datagram:
            _send_datagram(where, port, line)
        elif scheme == "tls":
            _send_tls(where, port, framed(line), _trusted_by(settings, hook))
        else:
            _send_stream(where, port, framed(line))
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"syslog at {hook.target}: its certificate is not trusted: {error.verify_message}") from None
    except OSError as error:
        raise NotSent(f"syslog at {hook.target}: {error.strerror or error}") from None
    return ""


def _send_datagram(host: str, port: int, line: bytes) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as sender:
        # A connected UDP socket reports a closed port; without an answer the delivery is unknown.
        sender.connect(address)
        sender.send(line)


def _send_stream(host: str, port: int, message: bytes) -> None:
    with closing(socket.create_connection((host, port), timeout=CONNECT_S)) as sender:
        sender.sendall(message)
        # A receiver that closes the connection has read the message; one that keeps it open may have.
        sender.shutdown(socket.SHUT_WR)
        sender.settimeout(ANSWER_S)
        with suppress(TimeoutError):
            sender.recv(1)


def _send_tls(host: str, port: int, message: bytes, trusted: ssl.SSLContext) -> None:
    """Send a framed syslog message over TLS (RFC 5425 4.3); the host's certificate is verified."""
    with (
        closing(socket.create_connection((host, port), timeout=CONNECT_S)) as line,
        closing(trusted.wrap_socket(line, server_hostname=host)) as sender,
    ):
        sender.sendall(message)
        # In TLS 1.3 a refusal (such as a missing client certificate) arrives after the handshake, so it must be read:
        # a close_notify sent first would make it look like a normal end.
        sender.settimeout(REFUSAL_S)
        with suppress(TimeoutError):
            sender.recv(1)
            return
        sender.settimeout(ANSWER_S)
        # No refusal arrived; any other end of the connection is normal.
        with suppress(TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            sender.unwrap()


def _trusted_by(settings: ServiceSettings, hook: HookRow) -> ssl.SSLContext:
    """Return the certificates to trust for a hook: its own, else the system's. Raises `NotSent`."""
    ca = settings.hooks.get(hook.secret_name or "", HookSettings()).ca
    if ca is None:
        return _trusted()
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise NotSent(f"[hooks.{hook.secret_name}] ca {ca}: {error.strerror or error}") from None


_SENDERS: dict[str, Callable[[ServiceSettings, HookRow, Outgoing, datetime], str]] = {
    "webhook": _send_webhook,
    "slack": _send_slack,
    "teams": _send_teams,
    "mail": _send_mail,
    "syslog": _send_syslog,
}

FIRST_PAUSE_S, LONGEST_PAUSE_S, GIVES_UP_AFTER_S = 10.0, 3600.0, 24 * 3600.0
_MOST = 20
"""Notices of one hook in one pass: results are stored soon, in case the process ends."""
_MOST_DUE = 500
_POLL_S = 0.2


class Batch(Struct, frozen=True, kw_only=True):
    """Notices for one hook in one pass, in order; audit entries (`is_audit`) have no row in the outbox."""

    hook: rows.HookRow
    notices: tuple[Outgoing, ...]
    is_audit: bool = False


class Tried(Struct, frozen=True, kw_only=True):
    """Result of one delivery; `failure` is None if the receiver accepted it."""

    batch: Batch
    outgoing: Outgoing
    failure: NotSent | None


class Delivery:
    """Sends what is due; keeps in memory which audit receivers are unreachable, and when to retry them."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[int, datetime]] = {}

    def __call__(self, service: Service) -> None:
        """Send all due notices and store the results."""
        now = service.now()
        with service.database.reading() as database:
            known = rows.hooks(database)
            batches = [*_from_outbox(known, _due(database, now))]
            batches += _from_audit(database, [hook for hook in known if self._follows(hook, now)])
        for tried in _sent(service, batches, now):
            self._write(service, tried)

    def _follows(self, hook: rows.HookRow, now: datetime) -> bool:
        waits = self._waits.get(hook.hook_id)
        is_left_alone = waits is not None and now < waits[1] <= now + timedelta(seconds=LONGEST_PAUSE_S)
        return NoticeKind.AUDIT_ENTRY in hook.kinds and not hook.is_paused and not is_left_alone

    def _write(self, service: Service, tried: Tried) -> None:
        hook_id, failure = tried.batch.hook.hook_id, tried.failure
        if not tried.batch.is_audit:
            _write_outbox(service, tried)
        elif failure is None:
            self._waits.pop(hook_id, None)
            seq = tried.outgoing.notice.facts["seq"]
            assert isinstance(seq, int)
            with service.database.writing() as database:
                rows.set_audit_seq(database, hook_id, seq)
        else:
            failures = self._waits.get(hook_id, (0, service.now()))[0] + 1
            self._waits[hook_id] = (failures, service.now() + pause(failures, failure.wait_s))


def pause(attempts: int, wait_s: float | None = None) -> timedelta:
    """Return the time until the next try after `attempts` failures (>= 1); longer if the receiver asks for `wait_s`."""
    grown_s = FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20)
    return timedelta(seconds=min(max(grown_s, wait_s or 0.0), LONGEST_PAUSE_S))


def _due(database: sqlite3.Connection, now: datetime) -> tuple[rows.OutboxRow, ...]:
    latest = now + timedelta(seconds=LONGEST_PAUSE_S)
    return rows.due(database, moment(now), latest=moment(latest), most=_MOST_DUE)


def _from_outbox(known: Iterable[rows.HookRow], due: Sequence[rows.OutboxRow]) -> Iterator[Batch]:
    for hook in known:
        own = [row for row in due if row.hook_id == hook.hook_id][:_MOST]
        if own:
            notices = (Outgoing(notice_id=row.notice_id, notice=Notice.from_json(row.body)) for row in own)
            yield Batch(hook=hook, notices=tuple(notices))


def _from_audit(database: sqlite3.Connection, following: Iterable[rows.HookRow]) -> Iterator[Batch]:
    for hook in following:
        if found := tuple(entries(database, after_seq=hook.audit_seq, most=_MOST)):
            yield Batch(hook=hook, notices=tuple(map(_of_entry, found)), is_audit=True)


def _of_entry(chained: ChainedEntry) -> Outgoing:
    entry = chained.entry
    notice = Notice(
        notice_id=f"audit-{chained.seq}",
        kind=NoticeKind.AUDIT_ENTRY,
        at=entry.at,
        about=entry.object,
        sentence=f"{entry.actor}: {entry.action} {entry.object}: {entry.outcome}",
        facts=facts_of(chained),
    )
    return Outgoing(notice_id=notice.notice_id, notice=notice)


def _sent(service: Service, batches: Sequence[Batch], now: datetime) -> Iterator[Tried]:
    """Send batches in parallel; yield each result until all are done or the service stops."""
    results: queue.SimpleQueue[Tried | None] = queue.SimpleQueue()
    for batch in batches:
        # A daemon thread: a receiver that hangs must not delay the end of the process.
        threading.Thread(target=_send_batch, args=(service, batch, now, results), name="hook", daemon=True).start()
    left = len(batches)
    while left and not service.stopping.is_set():
        try:
            tried = results.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if tried is None:
            left -= 1
        else:
            yield tried


def _send_batch(service: Service, batch: Batch, now: datetime, results: queue.SimpleQueue[Tried | None]) -> None:
    """Send a hook's notices in order, until one fails."""
    until_s = time.monotonic() + WHOLE_S
    try:
        for outgoing in batch.notices:
            failure = _try(service, batch.hook, outgoing, now)
            results.put(Tried(batch=batch, outgoing=outgoing, failure=failure))
            # A slow receiver continues in the next pass, along with the others.
            if failure is not None or time.monotonic() > until_s:
                break
    finally:
        results.put(None)


def _try(service: Service, hook: rows.HookRow, outgoing: Outgoing, now: datetime) -> NotSent | None:
    try:
        send(service.settings, hook, outgoing, now)
    except NotSent as failure:
        return failure
    except Exception as error:  # noqa: BLE001 -- one hook's trouble is a failed try, whatever it is
        return NotSent(f"{type(error).__name__}: {error}")
    return None


def _write_outbox(service: Service, tried: Tried) -> None:
    notice_id, failure, now = tried.outgoing.notice_id, tried.failure, service.now()
    with service.database.writing() as database:
        row = rows.notice_of(database, notice_id)
        if row is None or failure is None:
            rows.delivered(database, notice_id, moment(now))
            return
        next_at = _next_at(row, failure, now)
        rows.not_delivered(database, notice_id, next_at=next_at, sentence=failure.sentence)
        if next_at is not None:
            rows.hold_back(database, row.hook_id, next_at)
            return
        service.note(
            database,
            SYSTEM,
            "notice.given_up",
            f"hook:{tried.batch.hook.name}",
            outcome="failed",
            reason=failure.sentence,
            after={"notice": notice_id, "kind": row.kind, "attempts": row.attempts + 1},
        )


def _next_at(row: rows.OutboxRow, failure: NotSent, now: datetime) -> str | None:
    """Return when to retry a notice; None: never."""
    at = now + pause(row.attempts + 1, failure.wait_s)
    is_over = at - moment_of(row.at) > timedelta(seconds=GIVES_UP_AFTER_S)
    return None if failure.is_final or is_over else moment(at)
