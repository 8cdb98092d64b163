"""Add, change, test and remove hooks, for admins; each change is in the audit.

No hook stores a secret. A Slack or Teams address is itself a secret: the hook's target is the channel's name, and the
address comes from the configuration.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import getaddresses
from enum import StrEnum
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.redaction import sanitize
from flashferry.core.value_description import control_character
from flashferry.service.errors import Conflict, InvalidRequest, NotFound, ServiceError, listed
from flashferry.service.hooks.sending import NotSent, Outgoing, send, syslog_address
from flashferry.service.notices import Notice, NoticeKind
from flashferry.service.principal import EVERYWHERE, Actor
from flashferry.service.service import Service
from flashferry.store.service import hooks as rows
from flashferry.store.service.audit import AuditEntry, AuditFilter, entries, last

_MOST_NAME, _MOST_TARGET = 60, 500
_MOST_SITES = 200
TRIAL = "trial of a hook"
"""Name of the threads in which hooks are tested."""

_TESTED, _ANSWER = "hook.tested", "answer"


class HookForm(StrEnum):
    """Format in which a hook's notices are sent."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    MAIL = "mail"
    SYSLOG = "syslog"

    @property
    def meaning(self) -> str:
        """Return what the hook's target has to be."""
        return _TARGETS[self]


_TARGETS = {
    HookForm.WEBHOOK: "an address that takes JSON by POST, such as https://ops.example/hook; its secret signs",
    HookForm.SLACK: "the name of the channel; its secret is the address of Slack's incoming webhook",
    HookForm.TEAMS: "the name of the channel; its secret is the address of the workflow in Teams",
    HookForm.MAIL: "mail addresses, comma-separated; the server is in the configuration, [mail]",
    HookForm.SYSLOG: "udp://HOST[:514], tcp://HOST[:601], tls://HOST[:6514] or unix:///dev/log",
}
WITHOUT_SITE = frozenset({NoticeKind.EMERGENCY_LOGIN, NoticeKind.AUDIT_ENTRY, NoticeKind.AUDIT_HEAD})
"""Kinds that concern no site."""
FOLLOWERS = frozenset({HookForm.WEBHOOK, HookForm.SYSLOG})
"""Forms that may receive every entry of the audit."""
CHOICES = tuple(kind for kind in NoticeKind if kind is not NoticeKind.TEST)
"""Kinds that hooks can choose."""


class HookSpec(Struct, frozen=True, kw_only=True):
    """A hook as an admin specifies it.

    Attributes:
        target: Address; for Slack and Teams the name of the channel.
        secret_name: Section `[hooks.NAME]` of the configuration with its secret; empty: none.
        sites: Only notices about these sites; empty: all.
    """

    name: str
    form: str
    target: str
    secret_name: str = ""
    kinds: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    is_paused: bool = False


def add_hook(service: Service, actor: Actor, spec: HookSpec) -> rows.HookRow:
    """Add a hook; it receives notices from now on. Raises `InvalidRequest`, or `Conflict` if its name is taken."""
    with _deciding(service, actor, "hook.made", spec.name) as database:
        newest = last(database)
        hook = _row(service, spec, hook_id=uuid.uuid4().hex[:12], audit_seq=newest.seq if newest else 0)
        _write(database, hook, is_new=True)
        service.note(database, actor, "hook.made", _object(hook), after=hook_json(hook))
    return hook


def change_hook(service: Service, actor: Actor, hook_id: str, spec: HookSpec) -> rows.HookRow:
    """Change a hook; waiting notices are sent to its new target. Raises `NotFound`, or as `add_hook`."""
    with _deciding(service, actor, "hook.changed", spec.name) as database:
        before = found(database, hook_id)
        newest = last(database)
        # A new receiver of the audit gets the entries from now on.
        is_new_follower = NoticeKind.AUDIT_ENTRY not in before.kinds and newest is not None
        seq = newest.seq if is_new_follower and newest is not None else before.audit_seq
        hook = _row(service, spec, hook_id=hook_id, audit_seq=seq)
        _write(database, hook, is_new=False)
        rows.set_audit_seq(database, hook_id, seq)
        service.note(database, actor, "hook.changed", _object(hook), before=hook_json(before), after=hook_json(hook))
    return hook


def pause_hook(service: Service, actor: Actor, hook_id: str, *, is_paused: bool) -> rows.HookRow:
    """Pause or continue a hook. Raises `NotFound`."""
    action = "hook.paused" if is_paused else "hook.continued"
    with service.database.writing() as database:
        hook = replace(found(database, hook_id), is_paused=is_paused)
        rows.change_hook(database, hook)
        service.note(database, actor, action, _object(hook))
    return hook


def remove_hook(service: Service, actor: Actor, hook_id: str) -> None:
    """Remove a hook and its waiting notices. Raises `NotFound`."""
    with service.database.writing() as database:
        hook = found(database, hook_id)
        rows.remove_hook(database, hook_id)
        service.note(database, actor, "hook.removed", _object(hook), before=hook_json(hook))


class HookTest(Struct, frozen=True, kw_only=True):
    """A test of a hook.

    Attributes:
        failure: Why the receiver did not accept the notice; empty: it did.
        answer: What it answered, as `send` returns it.
    """

    failure: str
    answer: str


def test_hook(service: Service, actor: Actor, hook_id: str) -> HookTest:
    """Send a test notice at once. Raises `NotFound`."""
    with service.database.reading() as database:
        hook = found(database, hook_id)
    notice = Notice(
        notice_id=uuid.uuid4().hex,
        kind=NoticeKind.TEST,
        at=service.moment(),
        about=_object(hook),
        sentence=f"{actor.name} tests this hook of the staging service",
        facts={"hook": hook.name},
        link=f"{service.settings.base_url}/admin/hooks",
    )
    failure = answer = ""
    try:
        outgoing = Outgoing(notice_id=notice.notice_id, notice=notice, is_test=True)
        answer = send(service.settings, hook, outgoing, service.now())
    except NotSent as error:
        failure, answer = error.sentence, error.answer
    with service.database.writing() as database:
        outcome = "failed" if failure else "done"
        after = {_ANSWER: answer} if answer else None
        service.note(database, actor, _TESTED, _object(hook), outcome=outcome, reason=failure, after=after)
    return HookTest(failure=failure, answer=answer)


def last_test(database: sqlite3.Connection, hook: rows.HookRow) -> AuditEntry | None:
    """Return the audit entry of a hook's last test, whose reason is why it failed; None: never tested."""
    matching = AuditFilter(action=_TESTED, object=_object(hook))
    return next((one.entry for one in entries(database, matching=matching, is_newest_first=True, most=1)), None)


def answer_of(tested: AuditEntry | None) -> str:
    """Return what the receiver answered to a test; empty for none."""
    return str(json.loads(tested.after)[_ANSWER]) if tested is not None and tested.after else ""


def send_again(service: Service, actor: Actor, hook_id: str) -> int:
    """Retry the notices that were given up, for another day; return their number. Raises `NotFound`."""
    with service.database.writing() as database:
        hook = found(database, hook_id)
        count = rows.revive(database, hook_id, service.moment())
        service.note(database, actor, "hook.again", _object(hook), after={"notices": count})
    return count


def found(database: sqlite3.Connection, hook_id: str) -> rows.HookRow:
    """Return a hook by its identifier. Raises `NotFound`."""
    hook = rows.hook_of(database, hook_id)
    if hook is None:
        raise NotFound(f"there is no hook {sanitize(hook_id[:64])!r}", hint=listed("hooks"))
    return hook


def hook_json(hook: rows.HookRow) -> dict[str, object]:
    """Return a hook as JSON types."""
    return {
        "hook_id": hook.hook_id,
        "name": hook.name,
        "form": hook.form,
        "target": hook.target,
        "secret_name": hook.secret_name,
        "kinds": list(hook.kinds),
        "sites": list(hook.sites),
        "is_paused": hook.is_paused,
    }


def _row(service: Service, spec: HookSpec, *, hook_id: str, audit_seq: int) -> rows.HookRow:
    """Return the table row of a checked hook. Raises `InvalidRequest`."""
    if not 0 < len(spec.name.strip()) <= _MOST_NAME or control_character(spec.name):
        raise _wrong(f"name: expected 1 to {_MOST_NAME} characters in one line", "Give it a short name")
    if spec.form not in set(HookForm):
        raise _wrong(f"form: expected {', '.join(HookForm)}, found {sanitize(spec.form[:20])!r}", "Choose one")
    form = HookForm(spec.form)
    kinds = tuple(dict.fromkeys(spec.kinds))
    if not kinds or not set(kinds) <= set(CHOICES):
        raise _wrong(f"kinds: expected some of {', '.join(CHOICES)}", "Choose what it is sent")
    if NoticeKind.AUDIT_ENTRY in kinds and form not in FOLLOWERS:
        raise _wrong(
            f"kinds: expected a webhook or syslog for {NoticeKind.AUDIT_ENTRY}, found {form}",
            "Choose other kinds for people; audit.head is one for each day",
        )
    _check_secret(service, form, spec)
    return rows.HookRow(
        hook_id=hook_id,
        name=spec.name.strip(),
        form=form.value,
        target=_target(service, form, spec.target.strip()),
        secret_name=spec.secret_name or None,
        kinds=kinds,
        sites=_sites(spec.sites, kinds),
        is_paused=spec.is_paused,
        audit_seq=audit_seq,
    )


def _sites(given: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Check and return the sites that a hook is limited to. Raises `InvalidRequest`."""
    sites = tuple(dict.fromkeys(site.strip() for site in given))
    if len(sites) > _MOST_SITES or not all(0 < len(site) <= _MOST_NAME for site in sites) or _odd(sites):
        raise _wrong(
            f"sites: expected names of sites, at most {_MOST_SITES} of at most {_MOST_NAME} characters each",
            "Name them as in the inventory; none: all sites",
        )
    if sites and (whole := sorted(WITHOUT_SITE.intersection(kinds))):
        raise _wrong(
            f"sites: expected none for {', '.join(whole)}, which is about no site",
            "Make a second hook for that, without sites",
        )
    return sites


def _odd(sites: tuple[str, ...]) -> bool:
    return any(site == EVERYWHERE or control_character(site) for site in sites)


def _check_secret(service: Service, form: HookForm, spec: HookSpec) -> None:
    name, is_tls = spec.secret_name, form is HookForm.SYSLOG and spec.target.strip().startswith("tls:")
    takes = is_tls or form in (HookForm.WEBHOOK, HookForm.SLACK, HookForm.TEAMS)
    if name and not takes:
        raise _wrong(f"secret_name: {form} takes none", "Leave it out")
    if name and name not in service.settings.hooks:
        known = ", ".join(sorted(service.settings.hooks)) or "none"
        raise _wrong(
            f"secret_name: expected a section [hooks.NAME] of the configuration ({known}), "
            f"found {sanitize(name[:40])!r}",
            "Name there a program or a credential that has the secret, and restart the service",
        )
    if name and is_tls and service.settings.hooks[name].ca is None:
        raise _wrong(
            f"secret_name: expected a section with 'ca' for syslog by TLS, found [hooks.{name}] without",
            "Leave it out to use the system's certificates",
        )
    if not name and form in (HookForm.SLACK, HookForm.TEAMS):
        raise _wrong(
            f"secret_name: {form} is reached by an address that is a secret: expected where it is, found nothing",
            "Name a section [hooks.NAME] of the configuration whose secret is that address",
        )


def _target(service: Service, form: HookForm, target: str) -> str:
    """Check and return a target for a form. Raises `InvalidRequest`."""
    hint = form.meaning[0].upper() + form.meaning[1:]
    if not 0 < len(target) <= _MOST_TARGET or control_character(target):
        raise _wrong(f"target: expected 1 to {_MOST_TARGET} characters in one line", hint)
    if form is HookForm.WEBHOOK:
        if not _is_address(target):
            raise _wrong("target: expected http:// or https:// with a host, a port from 1 to 65535, no login", hint)
    elif form is HookForm.SYSLOG:
        try:
            syslog_address(target)
        except ValueError:
            raise _wrong("target: expected an address of syslog, found another one", hint) from None
    elif form is HookForm.MAIL:
        addresses = [address for _, address in getaddresses([target])]
        if not addresses or not all("@" in address for address in addresses):
            raise _wrong("target: expected mail addresses, comma-separated, found something else", hint)
        if service.settings.mail is None:
            raise _wrong("the configuration names no server for mail", "Add a section [mail] and restart the service")
    elif "://" in target:
        raise _wrong("target: expected the name of the channel, found an address, which is a secret", hint)
    return target


def _is_address(target: str) -> bool:
    """Return whether a text is a URL that a webhook can be sent to."""
    try:
        parts = urlsplit(target)
        port = parts.port
    except ValueError:
        return False
    is_host = bool(parts.hostname) and not (parts.username or parts.password)
    return parts.scheme in ("http", "https") and is_host and port != 0


@contextmanager
def _deciding(service: Service, actor: Actor, action: str, name: str) -> Iterator[sqlite3.Connection]:
    """Open a transaction; a refusal rolls it back and is written to the audit."""
    try:
        with service.database.writing() as database:
            yield database
    except ServiceError as problem:
        service.note_refusal(actor, action, f"hook:{sanitize(name[:_MOST_NAME])}", problem.sentence)
        raise


def _write(database: sqlite3.Connection, hook: rows.HookRow, *, is_new: bool) -> None:
    try:
        (rows.add_hook if is_new else rows.change_hook)(database, hook)
    except sqlite3.IntegrityError:
        raise Conflict(
            f"there is a hook of the name {sanitize(hook.name)!r} already", hint="Choose another name"
        ) from None


def _object(hook: rows.HookRow) -> str:
    return f"hook:{hook.name}"


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)
