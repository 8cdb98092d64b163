"""Keys of a night's description that are right by themselves and wrong together. Pure."""

from __future__ import annotations

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.description.values import LoginFrom, NightDescription, ReachBy, node_count
from flashferry.nightly.night import StepName
from flashferry.nightly.topology.definitions import ROUTERS
from inventory.yaml_file import line_of

_LAST_PORT = 65535


def check_together(description: NightDescription) -> None:
    """Refuse what cannot be done as a whole.

    Raises:
        ConfigInvalid: Two keys contradict each other; the sentence names file, both keys and the line of one.
    """
    _check_login(description)
    _check_work(description)
    _check_addresses(description)


def _check_login(description: NightDescription) -> None:
    if description.topology.file is not None and description.devices.source is LoginFrom.GENERATED:
        raise _wrong(
            description,
            "devices.login",
            "expected environment, keyring or command beside 'topology.file', found generated",
            "Say where the login that your topology's configurations have comes from",
        )


def _check_work(description: NightDescription) -> None:
    does = description.work.does
    if StepName.RESUME in does and StepName.KILL not in does:
        raise _wrong(
            description,
            "night.does",
            "expected kill where resume is, found it alone",
            "Nothing else leaves a run to resume",
        )
    kinds = {group.node_definition for site in description.topology.sites for group in site.nodes}
    boots = [kind for kind in kinds if ROUTERS[kind].can_boot_staged]
    if kinds and not boots and {StepName.STAGE, StepName.KILL} & set(does):
        raise _wrong(
            description,
            "night.does",
            f"expected neither stage nor kill where all routers are {', '.join(sorted(kinds))}, found one",
            "They boot no image from flash: have check and probe done, or add another router",
        )


def _check_addresses(description: NightDescription) -> None:
    reach, count = description.reach, node_count(description.topology.sites)
    if reach.pool and description.topology.file is not None:
        raise _wrong(
            description,
            "reach.addresses",
            "expected dhcp, or addresses by router with 'by: static', beside 'topology.file', found a list",
            "A list is handed out to routers of a topology that is made",
        )
    _check_enough(description, count)


def _check_enough(description: NightDescription, count: int) -> None:
    reach = description.reach
    if reach.pool and len(reach.pool) < count:
        raise _wrong(
            description,
            "reach.addresses",
            f"expected an address for each of the {count} routers, found {len(reach.pool)}",
            "Add addresses, or lower a count",
        )
    if reach.by is ReachBy.PATTY and reach.first_port + max(count, 1) - 1 > _LAST_PORT:
        raise _wrong(
            description,
            "reach.first_port",
            f"expected at most {_LAST_PORT - count + 1} for {count} routers, found {reach.first_port}",
            "Each router has a port of its own, from this one on",
        )


def _wrong(description: NightDescription, key: str, what: str, hint: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{description.file}: key '{key}': {what}{line_of(description.file, *key.split('.'))}", hint=hint
    )
