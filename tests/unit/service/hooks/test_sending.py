"""Each form of a hook against a real receiver on loopback: what arrives, and in what sentence a try fails."""

from __future__ import annotations

import email
import hashlib
import hmac
import itertools
import json
import re
import socket
from datetime import UTC, datetime
from email.policy import default

import pytest

from flashferry.core.redaction import forget_secrets
from flashferry.service.hooks import sending
from flashferry.service.hooks.sending import NotSent, Outgoing, send, syslog_address
from flashferry.service.notices import Notice, NoticeKind
from flashferry.service.settings import HookSettings, MailSettings, SecretFrom, ServiceSettings
from flashferry.store.service.hooks import HookRow
from tests.patience import until
from tests.unit.service.hooks.receivers import (
    certificate,
    hostile_receiver,
    mail_receiver,
    tcp_receiver,
    tls_receiver,
    udp_receiver,
    unix_receiver,
    web_receiver,
)

NOW = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
SECRET = "kX81hsB2mq0"
HOSTILE = "<!channel> [r1](http://evil) \x1b[2J\r\nBcc: eve@example *bold*"
SETTINGS = ServiceSettings(hooks={"own": HookSettings(secret=SecretFrom(command=("printf", SECRET)))})


@pytest.fixture(autouse=True)
def _forget():
    yield
    forget_secrets()


def outgoing(kind=NoticeKind.NOT_RESTORED, sentence="r1 is changed and not restored", **facts):
    notice = Notice(
        notice_id="n1",
        kind=kind,
        at="2026-11-22T02:00:00.000Z",
        about="run:1",
        sentence=sentence,
        facts=facts or {"device": "r1"},
        link="https://staging.example/runs/1",
    )
    return Outgoing(notice_id="key-1", notice=notice)


def hook(form, target, secret_name=None):
    return HookRow(hook_id="h", name="h", form=form, target=target, secret_name=secret_name, kinds=())


def test_a_webhook_is_signed():
    """HMAC-SHA256 over time stamp, dot and body; the key of all tries is with it."""
    with web_receiver() as receiver:
        send(SETTINGS, hook("webhook", f"{receiver.url}/in", "own"), outgoing(), NOW)
    ((path, headers, body),) = receiver.came
    stamp = headers["x-flashferry-timestamp"]
    expected = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert path == "/in"
    assert headers["x-flashferry-signature"] == f"sha256={expected}"
    assert (int(stamp), headers["idempotency-key"]) == (int(NOW.timestamp()), "key-1")
    assert json.loads(body)["kind"] == "device.not_restored"
    assert SECRET not in body.decode()


def test_without_a_secret_nothing_is_signed():
    """A header that anybody could make would be worth nothing."""
    with web_receiver() as receiver:
        send(SETTINGS, hook("webhook", receiver.url), outgoing(), NOW)
    assert "x-flashferry-signature" not in receiver.came[0][1]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status):
    """Where a hook leads is an administrator's word, not its receiver's."""
    with web_receiver() as receiver, web_receiver() as other:
        receiver.answers = [(status, {"Location": other.url})]
        with pytest.raises(NotSent, match=f"found {status}; redirects are not followed"):
            send(SETTINGS, hook("webhook", receiver.url), outgoing(), NOW)
    assert other.came == []


@pytest.mark.parametrize(
    ("status", "headers", "wait_s", "is_final"),
    [
        (500, {}, None, False),
        (401, {}, None, False),
        (429, {"Retry-After": "120"}, 120.0, False),
        (503, {"Retry-After": "Fri, 01 Jan"}, None, False),
        (410, {}, None, True),
    ],
)
def test_what_a_receiver_answers_is_heeded(status, headers, wait_s, is_final):
    """How long to wait, and that an address is gone for good; nothing else ends the tries."""
    with web_receiver() as receiver:
        receiver.answers = [(status, headers)]
        with pytest.raises(NotSent, match=f"found {status}") as caught:
            send(SETTINGS, hook("webhook", receiver.url), outgoing(), NOW)
    assert (caught.value.wait_s, caught.value.is_final) == (wait_s, is_final)


def test_a_receiver_that_is_not_there_is_told():
    """In a sentence, by every way that would know."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NotSent, match=r"no answer: .*refused"):
        send(SETTINGS, hook("webhook", f"http://127.0.0.1:{port}"), outgoing(), NOW)
    with pytest.raises(NotSent, match="Connection refused"):
        send(SETTINGS, hook("syslog", f"tcp://127.0.0.1:{port}"), outgoing(), NOW)
    with pytest.raises(NotSent, match="No such file"):
        send(SETTINGS, hook("syslog", "unix:///nowhere/log"), outgoing(), NOW)
    settings = ServiceSettings(mail=MailSettings(host="127.0.0.1", port=port, sender="a@b", security="none"))
    with pytest.raises(NotSent, match=r"could not be handed over: .*refused"):
        send(settings, hook("mail", "x@example"), outgoing(), NOW)


def test_slack_is_told_and_obeys_nothing():
    """The address is the secret; names of devices mention nobody and make no links."""
    with web_receiver() as receiver:
        settings = ServiceSettings(
            hooks={"own": HookSettings(secret=SecretFrom(command=("printf", f"{receiver.url}/T0/B0/x")))}
        )
        send(settings, hook("slack", "#staging", "own"), outgoing(sentence=HOSTILE), NOW)
    path, _, body = receiver.came[0]
    text = json.loads(body)["text"]
    assert path == "/T0/B0/x"
    assert "&lt;!channel&gt;" in text
    assert re.findall("<[^>]*>", text) == ["<https://staging.example/runs/1|Open it>"]
    assert "\x1b" not in text


def test_teams_is_told_and_obeys_nothing():
    """All foreign text stands in runs, where marks mean nothing."""
    with web_receiver() as receiver:
        settings = ServiceSettings(hooks={"own": HookSettings(secret=SecretFrom(command=("printf", receiver.url)))})
        send(settings, hook("teams", "Staging", "own"), outgoing(sentence=HOSTILE), NOW)
    card = json.loads(receiver.came[0][2])["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert card["actions"][0]["url"] == "https://staging.example/runs/1"


def test_an_address_that_is_a_secret_is_in_no_sentence():
    """Neither where it is wrong nor where nobody answers."""
    settings = ServiceSettings(
        hooks={"own": HookSettings(secret=SecretFrom(command=("printf", "http://127.0.0.1:9/T0/Xk29sHq")))}
    )
    with pytest.raises(NotSent) as caught:
        send(settings, hook("slack", "#staging", "own"), outgoing(), NOW)
    assert "Xk29sHq" not in caught.value.sentence


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (SecretFrom(command=("false",)), r"\[hooks.own\]: secret_command 'false': ended with exit code 1"),
        (SecretFrom(command=("/nowhere",)), "cannot be run"),
        (SecretFrom(command=("true",)), "expected one line of text for a secret, found nothing"),
        (SecretFrom(command=("printf", "a\\nb")), "found something else"),
        (SecretFrom(credential="own"), "expected credentials of systemd, found none"),
        (SecretFrom(), "expected where its secret is, found none"),
    ],
)
def test_a_secret_that_cannot_be_had_is_told(source, sentence, monkeypatch):
    """Nothing is sent unsigned that was to be signed."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with web_receiver() as receiver:
        settings = ServiceSettings(hooks={"own": HookSettings(secret=source)})
        with pytest.raises(NotSent, match=sentence):
            send(settings, hook("webhook", receiver.url, "own"), outgoing(), NOW)
        assert receiver.came == []


def test_a_credential_of_systemd_is_read(tmp_path, monkeypatch):
    """From the unit's folder, and from nowhere else, whatever it is called."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "own").write_text(f"{SECRET}\n")
    with web_receiver() as receiver:
        settings = ServiceSettings(hooks={"own": HookSettings(secret=SecretFrom(credential="../own"))})
        send(settings, hook("webhook", receiver.url, "own"), outgoing(), NOW)
    assert "x-flashferry-signature" in receiver.came[0][1]


def test_mail_is_handed_over():
    """To all recipients, with one Message-ID for all tries; a hostile name makes no header."""
    with mail_receiver() as server:
        mail = MailSettings(
            host="127.0.0.1", port=server.server_address[1], sender="ferry@staging.example", security="none"
        )
        settings = ServiceSettings(mail=mail)
        send(settings, hook("mail", "a@example.net, b@example.net"), outgoing(sentence=HOSTILE), NOW)
    message = email.message_from_bytes(server.messages[0], policy=default)
    assert [line.split(":")[1].split()[0] for line in server.envelope if line.upper().startswith("RCPT")] == [
        "<a@example.net>",
        "<b@example.net>",
    ]
    assert message["Bcc"] is None
    assert message["Subject"].strip().startswith("[flashferry] <!channel>")
    assert message["Message-ID"] == "<key-1@staging.example>"
    assert "https://staging.example/runs/1" in message.get_content()


def test_recipients_that_are_refused_are_told():
    """By the server's number, without its words."""
    with mail_receiver() as server:
        server.recipient_answer = b"550 no contact yet of\r\n"
        mail = MailSettings(host="127.0.0.1", port=server.server_address[1], sender="f@x", security="none")
        with pytest.raises(NotSent, match=r"none of the recipients \(550\)"):
            send(ServiceSettings(mail=mail), hook("mail", "a@example"), outgoing(), NOW)


def test_a_mail_server_without_tls_is_not_trusted():
    """With `starttls`, the default, nothing is handed over in clear text."""
    with mail_receiver() as server:
        mail = MailSettings(host="127.0.0.1", port=server.server_address[1], sender="f@x")
        with pytest.raises(NotSent, match="STARTTLS"):
            send(ServiceSettings(mail=mail), hook("mail", "a@example"), outgoing(), NOW)
    assert server.messages == []


SYSLOG = re.compile(rb"<(\d+)>1 (\S+) (\S+) flashferry (\d+) (\S+) - (\{.*\})")
"""RFC 5424 6: header, no structured data, a message in ASCII."""


def test_syslog_by_udp():
    """One datagram: facility local0, severity error for a device that is not restored."""
    with udp_receiver() as receiver:
        send(SETTINGS, hook("syslog", f"udp://127.0.0.1:{receiver.getsockname()[1]}"), outgoing(), NOW)
        found = SYSLOG.fullmatch(receiver.recv(65536))
    assert found is not None
    assert (int(found[1]), found[2], found[5]) == (16 * 8 + 3, b"2026-11-22T02:00:00.000Z", b"device.not_restored")
    assert json.loads(found[6])["facts"] == {"device": "r1"}


def test_a_line_too_long_for_udp_says_so():
    """What matters of an entry of the audit is there: number and hash."""
    with udp_receiver() as receiver:
        target = f"udp://127.0.0.1:{receiver.getsockname()[1]}"
        long = outgoing(NoticeKind.AUDIT_ENTRY, seq=7, hash="ff", before="x" * 9000, outcome="refused")
        send(SETTINGS, hook("syslog", target), long, NOW)
        found = SYSLOG.fullmatch(receiver.recv(65536))
    assert found is not None
    facts = json.loads(found[6])["facts"]
    assert (facts["seq"], facts["hash"]) == (7, "ff")
    assert "before" not in facts


def test_syslog_by_tcp():
    """With its length in front, whole however long; a refusal in the audit is a warning of facility audit."""
    with tcp_receiver() as (port, came):
        long = outgoing(NoticeKind.AUDIT_ENTRY, before="x" * 9000, outcome="refused")
        send(SETTINGS, hook("syslog", f"tcp://127.0.0.1:{port}"), long, NOW)
    length, _, line = came[0].partition(b" ")
    assert int(length) == len(line)
    found = SYSLOG.fullmatch(line)
    assert found is not None
    assert int(found[1]) == 13 * 8 + 4
    assert len(json.loads(found[6])["facts"]["before"]) == 9000


def by_tls(port, ca, host="127.0.0.1"):
    """Send a long notice to a receiver, believing what one file says."""
    settings = ServiceSettings(hooks={"log": HookSettings(ca=ca)})
    long = outgoing(NoticeKind.AUDIT_ENTRY, before="x" * 90_000, outcome="refused")
    send(settings, hook("syslog", f"tls://{host}:{port}", "log"), long, NOW)


@pytest.mark.parametrize("ends", ["in order", "at once", "late"])
def test_syslog_by_tls(tmp_path, ends, monkeypatch):
    """With its length in front, whole however long, however the receiver ends; one that says nothing has taken it."""
    monkeypatch.setattr(sending, "ANSWER_S", 0.5)
    monkeypatch.setattr(sending, "REFUSAL_S", 0.1)
    pem = certificate(tmp_path, "log", "127.0.0.1")
    with tls_receiver(pem, ends=ends) as (port, came):
        by_tls(port, pem)
    length, _, line = came[0].partition(b" ")
    assert int(length) == len(line)
    assert SYSLOG.fullmatch(line) is not None


def test_syslog_by_tls_is_for_whom_it_is_meant(tmp_path):
    """Another's certificate, one for another address, and one that the system does not know: nothing is sent."""
    pem, other = certificate(tmp_path, "log", "127.0.0.1"), certificate(tmp_path, "other", "127.0.0.2")
    with tls_receiver(pem) as (port, came):
        for ca in (other, None):
            with pytest.raises(NotSent, match="not trusted: self-signed certificate"):
                by_tls(port, ca)
    with tls_receiver(other) as (port, came_there), pytest.raises(NotSent, match=r"not trusted: .*127.0.0.1"):
        by_tls(port, other)
    assert came == came_there == []


def test_a_receiver_by_tls_that_wants_more_is_not_taken_for_one_that_took_it(tmp_path, monkeypatch):
    """It wants a certificate of ours, and says so behind the handshake; so does one that speaks no TLS, or is away."""
    monkeypatch.setattr(sending, "REFUSAL_S", 10)
    pem = certificate(tmp_path, "log", "127.0.0.1")
    with tls_receiver(pem, wants=pem) as (port, came), pytest.raises(NotSent, match=r"syslog at tls://"):
        by_tls(port, pem)
    assert came == []
    with pytest.raises(NotSent, match="Connection refused"):
        by_tls(port, pem)
    with pytest.raises(NotSent, match=r"\[hooks.log\] ca .*No such file"):
        by_tls(port, tmp_path / "nowhere")


def test_syslog_by_a_socket_of_this_host(tmp_path):
    """As the system's own log takes it."""
    with unix_receiver(tmp_path / "log") as receiver:
        send(SETTINGS, hook("syslog", f"unix://{tmp_path}/log"), outgoing(NoticeKind.RUN_BEGAN), NOW)
        assert SYSLOG.fullmatch(receiver.recv(65536))


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("udp://log.example", ("udp", "log.example", 514)),
        ("tcp://[2001:db8::1]:6514", ("tcp", "2001:db8::1", 6514)),
        ("tls://log.example", ("tls", "log.example", 6514)),
        ("unix:///dev/log", ("unix", "/dev/log", 0)),
    ],
)
def test_where_syslog_is_is_understood(target, found):
    """With the ports that syslog has."""
    assert syslog_address(target) == found


@pytest.mark.parametrize("target", ["http://x", "udp://", "unix://host/dev/log", "udp://a@b", "tcp://x/path", "x"])
def test_where_syslog_is_not(target):
    """Anything else is none."""
    with pytest.raises(ValueError, match=re.escape(target)):
        syslog_address(target)


def test_a_receiver_that_drips_is_given_up(monkeypatch):
    """A header a moment renews the limit of one read, and not that of the whole try."""
    monkeypatch.setattr(sending, "WHOLE_S", 0.5)
    dripping = itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"a: b\r\n"))
    with hostile_receiver(lambda: dripping, every_s=0.01) as hostile:
        with pytest.raises(NotSent, match=r"no answer within 0\.5 s"):
            send(SETTINGS, hook("webhook", hostile.url), outgoing(), NOW)
        until(lambda: hostile.ended == 1, "the end of the connection")


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_mail_server_that_drips_is_given_up(monkeypatch, security):
    """Whatever is spoken: its greeting has no end."""
    monkeypatch.setattr(sending, "WHOLE_S", 0.5)
    with hostile_receiver(lambda: itertools.repeat(b"2"), every_s=0.01) as hostile:
        settings = ServiceSettings(
            mail=MailSettings(host="127.0.0.1", port=hostile.port, sender="a@b", security=security)
        )
        with pytest.raises(
            NotSent, match=r"no answer within 0\.5 s" if security != "tls" else "could not be handed over"
        ):
            send(settings, hook("mail", "x@example"), outgoing(), NOW)
        until(lambda: hostile.ended == 1, "the end of the connection")


def test_a_mail_server_that_floods_is_given_up():
    """An answer of many lines is read to a bound."""
    with hostile_receiver(lambda: itertools.repeat(b"220-" + b"x" * 1000 + b"\r\n")) as hostile:
        settings = ServiceSettings(
            mail=MailSettings(host="127.0.0.1", port=hostile.port, sender="a@b", security="none")
        )
        with pytest.raises(NotSent, match="at most 65,536 bytes"):
            send(settings, hook("mail", "x@example"), outgoing(), NOW)
        until(lambda: hostile.ended == 1, "the end of the connection")
    assert hostile.sent_bytes < 64 * 2**20
