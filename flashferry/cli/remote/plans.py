"""Plans at a remote service: a file offered, a digest looked up, an approval waited for, and what a run of one has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from flashferry.cli.terminal.output import command, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading
from flashferry.model.fleet_plan import Action
from flashferry.model.plan_file import plan_from
from flashferry.monitor.progress import Expected, Roster
from flashferry.service.client.answers import ApprovalWanted, ServiceUnusable
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemotePlan

_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_WHOLE = 64
_MOST_BYTES = 64 << 20
_LOOK_S = 2.0


def planned(client: ServiceClient, given: str, title: str) -> RemotePlan:
    """Return the plan at the service that is meant: a file of this host is offered there.

    Args:
        client: Sends requests to the service.
        given: A file, or the digest of a plan there, or its beginning.
        title: The title of a plan that is offered.

    Raises:
        ConfigInvalid: The file cannot be read or is no plan, or no plan there has that digest.
    """
    if Path(given).exists() or not _DIGEST.fullmatch(given):
        return _offered(client, Path(given), title)
    if title:
        raise ConfigInvalid(
            "--title: a plan that is at the service already has its title, found another", hint="Leave it out"
        )
    return client.plan(given if len(given) == _WHOLE else _whole(client, given))


def approved(client: ServiceClient, plan: RemotePlan, *, waits: bool) -> RemotePlan:
    """Return the plan once it is approved.

    Raises:
        ApprovalWanted: It is not approved yet, and is not to be waited for.
        ConfigInvalid: It was denied or withdrawn, or cannot be started for another reason.
    """
    if plan.is_draft:
        if not waits:
            raise ApprovalWanted(
                f"plan {_short(plan)} waits for approval; nothing was started",
                hint=f"{_approver(client, plan)}; then '{command(f'stage --plan {plan.digest}')}' starts it, "
                "and --wait waits for it",
            )
        say(f"plan {_short(plan)} waits for approval. {_approver(client, plan)}")
        plan = _decided(client, plan)
    if plan.state != "approved" or plan.why_not:
        _refuse(plan)
    return plan


def roster_of_plan(client: ServiceClient, digest: str | None) -> Roster:
    """Return which devices the run of a plan has, for the live view; none where that is not known beforehand."""
    if digest is None:
        return Roster()
    try:
        plan = plan_from(client.plan_file(digest), f"{digest[:12]}… at the service")
    except ConfigInvalid:
        # One of another release; its run is followed all the same, devices are shown as events name them.
        return Roster()
    sizes = {image.name: image.size_bytes for image in plan.images}
    devices = tuple(
        Expected(host=one.host, site=one.site or "", size_bytes=sizes.get(one.image or ""))
        for one in plan.of(Action.STAGE)
    )
    caps = {site.site: site.cap_bytes_per_s for site in plan.sites if site.cap_bytes_per_s is not None}
    return Roster(devices=devices, caps_bytes_per_s=caps)


def _offered(client: ServiceClient, path: Path, title: str) -> RemotePlan:
    content = _content(path)
    name = title or path.stem
    offered = client.offer(content, name)
    say(f"plan {path}: SHA-256 {offered.digest}, at the service as {offered.title or name!r}")
    return client.plan(offered.digest)


def _content(path: Path) -> bytes:
    """Return a plan's file, checked here before it is sent.

    Raises:
        ConfigInvalid: It cannot be read, or is no plan.
    """
    try:
        with reading(path) as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be read: {error.strerror}",
            hint="Give the file that 'flashferry plan --output' wrote, or at least eight digits of a plan's digest",
        ) from None
    plan_from(content, path)
    return content


def _whole(client: ServiceClient, beginning: str) -> str:
    found = [plan.digest for plan in client.plans() if plan.digest.startswith(beginning)]
    if len(found) != 1:
        raise ConfigInvalid(
            f"--plan: expected one plan at the service that begins with {beginning}, found {len(found)}",
            hint=f"Give more of its digest; {client.url}/plans lists them",
        )
    return found[0]


def _decided(client: ServiceClient, plan: RemotePlan) -> RemotePlan:
    while plan.is_draft:
        client.pause(_LOOK_S)
        try:
            plan = client.plan(plan.digest)
        except ServiceUnusable as error:
            if not error.passes:
                raise
            say(f"{error.message}. Trying again")
    say(f"plan {_short(plan)} is {plan.state}, by {plan.withdrawn_by or plan.decided_by or 'an approver'}")
    return plan


def _approver(client: ServiceClient, plan: RemotePlan) -> str:
    sites = ", ".join(site or "devices without a site" for site in plan.sites) or "all sites"
    return f"An approver for {sites} other than {plan.made_by} decides at {client.url}/plans/{plan.digest}"


def _refuse(plan: RemotePlan) -> NoReturn:
    because = plan.withdrawn_because or plan.comment or ""
    by = plan.withdrawn_by or plan.decided_by or "an approver"
    why = plan.why_not or f"it was {plan.state} by {by}" + (f": {because}" if because else "")
    raise ConfigInvalid(
        f"plan {_short(plan)} cannot be carried out: {why}; nothing was started",
        hint="Make a new one, and have it approved",
    )


def _short(plan: RemotePlan) -> str:
    return f"{plan.digest[:12]}…"
