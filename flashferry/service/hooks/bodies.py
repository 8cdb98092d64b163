"""Bodies of notices: signed JSON, Slack and Teams messages, mail, syslog lines. Pure.

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP

from flashferry.core.outside import shown
from flashferry.service.notices import Notice, NoticeKind

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
_SHOWN_FACTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """An HTTP POST: JSON body, and headers besides those of every request."""

    body: bytes
    headers: Mapping[str, str]


def webhook(notice: Notice, notice_id: str, secret: str | None, now: datetime) -> Post:
    """Return a notice for a webhook, signed if there is a secret.

    `notice_id` is the idempotency key, equal for each attempt. The signature covers the time `now`: receivers refuse
    old ones, so that none can be replayed.
    """
    body = notice.to_json().encode()
    stamp = str(int(now.timestamp()))
    headers = {"Idempotency-Key": notice_id, "X-Flashferry-Kind": notice.kind.value, TIMESTAMP: stamp}
    if secret is not None:
        headers[SIGNATURE] = f"sha256={signature(secret, stamp, body)}"
    return Post(body=body, headers=headers)


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Return HMAC-SHA256 in hexadecimal over time stamp, a dot, and body."""
    return hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def slack(notice: Notice) -> Post:
    """Return a notice as a message for an incoming webhook of Slack or a compatible receiver."""
    link = f"\n<{_for_slack(notice.link)}|Open it>" if notice.link else ""
    lines = [f"*{_for_slack(shown(notice.sentence))}*", *(_for_slack(line) for line in _facts(notice))]
    return _json_post({"text": "\n".join(lines) + link})


def teams(notice: Notice) -> Post:
    """Return a notice as an adaptive card for a Teams workflow that is started by a webhook."""
    runs = [{"type": "TextRun", "text": shown(notice.sentence), "weight": "Bolder"}]
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
    """Return a notice as mail."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = f"[flashferry] {shown(notice.sentence)}"[:_LONGEST_SUBJECT]
    message["From"] = sender
    message["To"] = to
    message["Date"] = datetime.fromisoformat(notice.at)
    message["Message-ID"] = f"<{notice_id}@{sender.rpartition('@')[2] or 'flashferry.invalid'}>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [shown(notice.sentence), "", *_facts(notice), "", f"kind: {notice.kind}", f"at: {notice.at}"]
    message.set_content("\n".join([*lines, *([notice.link] if notice.link else [])]) + "\n")
    return message


def syslog_line(notice: Notice, *, hostname: str, process: int, most_bytes: int | None = None) -> bytes:
    """Return a notice as a syslog message; above `most_bytes` its facts are left out, and it says so."""
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
    """Return a syslog message with its length in front, as over TCP."""
    return str(len(line)).encode() + b" " + line


def _priority(notice: Notice) -> int:
    is_audit = notice.kind in (NoticeKind.AUDIT_ENTRY, NoticeKind.AUDIT_HEAD)
    facility = _FACILITY_AUDIT if is_audit else _FACILITY_LOCAL0
    is_warning = notice.kind in _WARNINGS or notice.facts.get("outcome") in ("refused", "failed")
    severity = _ERROR if notice.kind in _ERRORS else _WARNING if is_warning else _INFORMATIONAL
    return facility * 8 + severity


def _facts(notice: Notice) -> list[str]:
    """Return the first facts as lines for people."""
    lines = []
    for key, value in list(notice.facts.items())[:_SHOWN_FACTS]:
        text = value if isinstance(value, str) else json.dumps(value)
        if text:
            lines.append(shown(f"{key}: {text}"[:_LONGEST_FACT]))
    return lines


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json_post(document: Mapping[str, object]) -> Post:
    return Post(body=json.dumps(document).encode(), headers={})
