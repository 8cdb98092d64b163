"""Hooks made, changed, tried and removed by an administrator: checked, and in the audit with the change.

No hook has a secret in it. One of Slack or Teams is reached by an address that is itself a secret, so its target is
what people call the channel, and the address comes from where the configuration says.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import getaddresses
from enum import StrEnum
from urllib.parse import urlsplit

from flashferry.service.errors import Conflict, InvalidRequest, NotFound, ServiceError, listed
from flashferry.core.outside import shown
from flashferry.core.safe_quote import control_character
from flashferry.service.auditing import note, note_refusal
from flashferry.service.hooks.sending import NotSent, Outgoing, send, syslog_address
from flashferry.service.notices import Notice, NoticeKind
from flashferry.service.principal import EVERYWHERE, Actor
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service import hooks as rows
from flashferry.store.service.audit import last
from flashferry.store.service.database import moment

_MOST_NAME, _MOST_TARGET = 60, 500
_MOST_SITES = 200
TRIAL = "trial of a hook"
"""What the threads are for in which an administrator tries a hook."""


class HookForm(StrEnum):
    """In which form a hook is sent notices."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    MAIL = "mail"
    SYSLOG = "syslog"

    @property
    def meaning(self) -> str:
        """Return what its target is, in words."""
        return _TARGETS[self]


_TARGETS = {
    HookForm.WEBHOOK: "an address that takes JSON by POST, such as https://ops.example/hook; its secret signs",
    HookForm.SLACK: "what people call the channel; its secret is the address of Slack's incoming webhook",
    HookForm.TEAMS: "what people call the channel; its secret is the address of the workflow in Teams",
    HookForm.MAIL: "addresses of mail, by commas; the server is in the configuration, [mail]",
    HookForm.SYSLOG: "udp://HOST[:514], tcp://HOST[:601], tls://HOST[:6514] or unix:///dev/log",
}
WITHOUT_SITE = frozenset({NoticeKind.EMERGENCY_LOGIN, NoticeKind.AUDIT_ENTRY, NoticeKind.AUDIT_HEAD})
"""Kinds that are about no site."""
FOLLOWERS = frozenset({HookForm.WEBHOOK, HookForm.SYSLOG})
"""Those that may be sent every entry of the audit."""
CHOICES = tuple(kind for kind in NoticeKind if kind is not NoticeKind.TEST)
"""Kinds that hooks are sent by choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookWish:
    """A hook as an administrator wants it.

    Attributes:
        name: What people call it.
        form: In which form.
        target: Where it leads.
        secret_name: The section `[hooks.NAME]` of the configuration that has its secret; empty: none.
        kinds: The kinds of notices.
        sites: Of what touches one of these sites alone; none: of all.
        is_paused: Whether it is sent nothing for now.
    """

    name: str
    form: str
    target: str
    secret_name: str = ""
    kinds: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    is_paused: bool = False


def add_hook(service: Service, actor: Actor, wish: HookWish) -> rows.HookRow:
    """Add a hook; it is sent what happens from now on.

    Raises:
        ServiceError: Something of it will not do (422), or there is one of that name (409).
    """
    with _deciding(service, actor, "hook.made", wish.name) as database:
        newest = last(database)
        hook = _row(service, wish, hook_id=uuid.uuid4().hex[:12], audit_seq=newest.seq if newest else 0)
        _write(database, hook, is_new=True)
        note(service, database, actor, "hook.made", _object(hook), after=told_hook(hook))
    return hook


def change_hook(service: Service, actor: Actor, hook_id: str, wish: HookWish) -> rows.HookRow:
    """Change a hook; what waits for it is sent to where it leads then.

    Raises:
        ServiceError: Something of it will not do, there is another one of that name (409), or there is none (404).
    """
    with _deciding(service, actor, "hook.changed", wish.name) as database:
        before = found(database, hook_id)
        newest = last(database)
        # One that begins to follow the audit is sent what happens from now on.
        is_new_follower = NoticeKind.AUDIT_ENTRY not in before.kinds and newest is not None
        seq = newest.seq if is_new_follower and newest is not None else before.audit_seq
        hook = _row(service, wish, hook_id=hook_id, audit_seq=seq)
        _write(database, hook, is_new=False)
        rows.set_audit_seq(database, hook_id, seq)
        note(service, database, actor, "hook.changed", _object(hook), before=told_hook(before), after=told_hook(hook))
    return hook


def pause_hook(service: Service, actor: Actor, hook_id: str, *, is_paused: bool) -> rows.HookRow:
    """Have a hook be sent nothing for now, or go on.

    Raises:
        ServiceError: There is none (404).
    """
    action = "hook.paused" if is_paused else "hook.continued"
    with service.database.writing() as database:
        hook = replace(found(database, hook_id), is_paused=is_paused)
        rows.change_hook(database, hook)
        note(service, database, actor, action, _object(hook))
    return hook


def remove_hook(service: Service, actor: Actor, hook_id: str) -> None:
    """Remove a hook, and what waits for it.

    Raises:
        ServiceError: There is none (404).
    """
    with service.database.writing() as database:
        hook = found(database, hook_id)
        rows.remove_hook(database, hook_id)
        note(service, database, actor, "hook.removed", _object(hook), before=told_hook(hook))


def test_hook(service: Service, actor: Actor, hook_id: str) -> str:
    """Send a hook a notice of its own, at once; return why it was not taken, empty where it was.

    Raises:
        ServiceError: There is none (404).
    """
    with service.database.reading() as database:
        hook = found(database, hook_id)
    notice = Notice(
        notice_id=uuid.uuid4().hex,
        kind=NoticeKind.TEST,
        at=moment(service.now()),
        about=_object(hook),
        sentence=f"{actor.name} tries this hook of the staging service",
        facts={"hook": hook.name},
        link=f"{service.settings.base_url}/admin/hooks",
    )
    failure = ""
    try:
        send(service.settings, hook, Outgoing(notice_id=notice.notice_id, notice=notice), service.now())
    except NotSent as error:
        failure = error.sentence
    with service.database.writing() as database:
        outcome = "failed" if failure else "done"
        note(service, database, actor, "hook.tested", _object(hook), outcome=outcome, reason=failure)
    return failure


def send_again(service: Service, actor: Actor, hook_id: str) -> int:
    """Have what was given up of a hook's notices tried for another day; return how many.

    Raises:
        ServiceError: There is no such hook (404).
    """
    with service.database.writing() as database:
        hook = found(database, hook_id)
        count = rows.revive(database, hook_id, moment(service.now()))
        note(service, database, actor, "hook.again", _object(hook), after={"notices": count})
    return count


def found(database: sqlite3.Connection, hook_id: str) -> rows.HookRow:
    """Return a hook by its identifier.

    Raises:
        ServiceError: There is none (404).
    """
    hook = rows.hook_of(database, hook_id)
    if hook is None:
        raise NotFound(f"there is no hook {shown(hook_id[:64])!r}", hint=listed("hooks"))
    return hook


def told_hook(hook: rows.HookRow) -> dict[str, object]:
    """Return a hook as JSON has it."""
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


def _row(service: Service, wish: HookWish, *, hook_id: str, audit_seq: int) -> rows.HookRow:
    """Return the row of a hook that will do.

    Raises:
        ServiceError: It will not.
    """
    if not 0 < len(wish.name.strip()) <= _MOST_NAME or control_character(wish.name):
        raise _wrong(f"name: expected 1 to {_MOST_NAME} characters in one line", "Give it a short name")
    if wish.form not in set(HookForm):
        raise _wrong(f"form: expected {', '.join(HookForm)}, found {shown(wish.form[:20])!r}", "Choose one")
    form = HookForm(wish.form)
    kinds = tuple(dict.fromkeys(wish.kinds))
    if not kinds or not set(kinds) <= set(CHOICES):
        raise _wrong(f"kinds: expected some of {', '.join(CHOICES)}", "Choose what it is sent")
    if NoticeKind.AUDIT_ENTRY in kinds and form not in FOLLOWERS:
        raise _wrong(
            f"kinds: expected a webhook or syslog for {NoticeKind.AUDIT_ENTRY}, found {form}",
            "People are told by other kinds; audit.head is one for each day",
        )
    _check_secret(service.settings, form, wish)
    return rows.HookRow(
        hook_id=hook_id,
        name=wish.name.strip(),
        form=form.value,
        target=_target(service.settings, form, wish.target.strip()),
        secret_name=wish.secret_name or None,
        kinds=kinds,
        sites=_sites(wish.sites, kinds),
        is_paused=wish.is_paused,
        audit_seq=audit_seq,
    )


def _sites(given: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sites that a hook is limited to.

    Raises:
        ServiceError: Some will not do, or it is to be sent what is about no site.
    """
    sites = tuple(dict.fromkeys(site.strip() for site in given))
    if len(sites) > _MOST_SITES or not all(0 < len(site) <= _MOST_NAME for site in sites) or _odd(sites):
        raise _wrong(
            f"sites: expected names of sites, at most {_MOST_SITES} of at most {_MOST_NAME} characters each",
            "Name them as the inventory does, or none for a hook that is sent what happens at all of them",
        )
    if sites and (whole := sorted(WITHOUT_SITE.intersection(kinds))):
        raise _wrong(
            f"sites: expected none for {', '.join(whole)}, which is about no site",
            "Make a second hook for that, without sites",
        )
    return sites


def _odd(sites: tuple[str, ...]) -> bool:
    return any(site == EVERYWHERE or control_character(site) for site in sites)


def _check_secret(settings: ServiceSettings, form: HookForm, wish: HookWish) -> None:
    name, is_tls = wish.secret_name, form is HookForm.SYSLOG and wish.target.strip().startswith("tls:")
    takes = is_tls or form in (HookForm.WEBHOOK, HookForm.SLACK, HookForm.TEAMS)
    if name and not takes:
        raise _wrong(f"secret_name: {form} takes none", "Leave it out")
    if name and name not in settings.hooks:
        known = ", ".join(sorted(settings.hooks)) or "none"
        raise _wrong(
            f"secret_name: expected a section [hooks.NAME] of the configuration ({known}), found {shown(name[:40])!r}",
            "Name there a program or a credential that has the secret, and start the service anew",
        )
    if name and is_tls and settings.hooks[name].ca is None:
        raise _wrong(
            f"secret_name: expected a section with 'ca' for syslog by TLS, found [hooks.{name}] without",
            "Leave it out to trust whom the system trusts",
        )
    if not name and form in (HookForm.SLACK, HookForm.TEAMS):
        raise _wrong(
            f"secret_name: {form} is reached by an address that is a secret: expected where it is, found nothing",
            "Name a section [hooks.NAME] of the configuration whose secret is that address",
        )


def _target(settings: ServiceSettings, form: HookForm, target: str) -> str:
    """Return a target that will do for a form.

    Raises:
        ServiceError: It will not.
    """
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
            raise _wrong("target: expected addresses of mail, by commas, found something else", hint)
        if settings.mail is None:
            raise _wrong("the configuration names no server for mail", "Give it a section [mail], then begin again")
    elif "://" in target:
        raise _wrong("target: expected what people call the channel, found an address, which is a secret", hint)
    return target


def _is_address(target: str) -> bool:
    """Return whether a webhook can be sent there; `urlsplit` raises ValueError for a port or host that is none."""
    try:
        parts = urlsplit(target)
        port = parts.port
    except ValueError:
        return False
    is_host = bool(parts.hostname) and not (parts.username or parts.password)
    return parts.scheme in ("http", "https") and is_host and port != 0


@contextmanager
def _deciding(service: Service, actor: Actor, action: str, name: str) -> Iterator[sqlite3.Connection]:
    """Yield the database in one transaction; a refusal undoes it, and is in the audit."""
    try:
        with service.database.writing() as database:
            yield database
    except ServiceError as problem:
        note_refusal(service, actor, action, f"hook:{shown(name[:_MOST_NAME])}", problem.sentence)
        raise


def _write(database: sqlite3.Connection, hook: rows.HookRow, *, is_new: bool) -> None:
    try:
        (rows.add_hook if is_new else rows.change_hook)(database, hook)
    except sqlite3.IntegrityError:
        raise Conflict(
            f"there is a hook of the name {shown(hook.name)!r} already", hint="Choose another name"
        ) from None


def _object(hook: rows.HookRow) -> str:
    return f"hook:{hook.name}"


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)
