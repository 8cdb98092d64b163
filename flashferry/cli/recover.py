"""`flashferry recover`: restore what dead runs left tuned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from nornir.core import Nornir
from nornir.core.inventory import Host, Hosts, Inventory

from flashferry.cli.options.fleet import FleetOptions, login_options, opened, with_credentials
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import EventLines, finish
from flashferry.cli.view.device_tables import print_recovery
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.devices.errors import RestoreIncomplete
from flashferry.model.exit_codes import ExitCode
from flashferry.model.lease import LeasedDevice
from flashferry.model.states import Restored
from flashferry.run.recover import RecoveryRecord, forget, pending
from flashferry.run.recover import recover as recover_fleet
from flashferry.store.journal import Journal, state_directory


@login_options
def recover(
    which: FleetOptions,
    gone: Annotated[
        list[str] | None,
        typer.Option(
            "--forget",
            metavar="DEVICE",
            help="Restore nothing, but let go of this device: it was exchanged, or set right by hand. Nothing is sent "
            "to it. RUN/DEVICE where several runs left one of that name. May be repeated.",
        ),
    ] = None,
    vouched: Annotated[
        list[str] | None,
        typer.Option(
            "--device-is",
            metavar="DEVICE",
            help="Whoever answers at this device's address is the one that is meant, whatever it calls itself: another "
            "member of its stack, or the router that took over its configuration. May be repeated.",
        ),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Find every device that a dead run left tuned, restore it and prove it."""
    if gone and vouched:
        raise ConfigInvalid(
            "--forget cannot be combined with --device-is: one lets go of a device, the other restores it"
        )
    if gone:
        with Journal(state_directory(state_dir)) as journal:
            let_go = forget(journal, gone)
        result: dict[str, object] = {"devices": let_go}
        finish("recover", ExitCode.OK, result, as_json=json, human=lambda: print_recovery(let_go))
        return
    with Journal(state_directory(state_dir)) as journal, graceful_interrupt() as stop:
        nornir = only_pending(opened(which), pending(journal))
        unusable: dict[str, FlashferryError] = {}
        if nornir.inventory.hosts:
            # Nobody is asked for a password before there is something to recover.
            with_credentials(nornir, which, failed=unusable.setdefault)
        records = recover_fleet(
            nornir,
            journal,
            emit=EventLines(),
            interrupted=stop.is_set,
            unusable=unusable,
            vouched=frozenset(vouched or ()),
        )
    whole = all(record.restored is Restored.RESTORED for record in records)
    code = ExitCode.OK if whole else ExitCode.RESTORE_INCOMPLETE
    finish("recover", code, {"devices": records}, as_json=json, human=lambda: print_recovery(records))


def check_any_restored(run_id: str, records: Sequence[RecoveryRecord]) -> None:
    """Check that a run may go on behind its recovery: not from where none of its devices could be restored.

    Raises:
        RestoreIncomplete: None of them could: most likely this is the wrong place or inventory for the others too.
    """
    failures = [(record.host, record.failure) for record in records if record.failure is not None]
    if not failures or len(failures) < len(records):
        return
    host, first = failures[0]
    none = f"none of the {len(records)} devices that it left in its hands could be restored"
    one = f"{host}, which it left in its hands, could not be restored"
    raise RestoreIncomplete(
        f"run {run_id} was not gone on with: {one if len(records) == 1 else none} ({first.reason})",
        hint="Is this the right place, and the right inventory? If so, name those to go on with by --host, --group or "
        "--filter",
    )


def only_pending(nornir: Nornir, devices: Iterable[LeasedDevice]) -> Nornir:
    """Return a Nornir with the journal's devices alone, those that the inventory does not know any more included.

    What a source of credentials has to say of any other device is nothing to a recovery.
    """
    known, defaults = nornir.inventory.hosts, nornir.inventory.defaults
    hosts = Hosts()
    for device in devices:
        stranger = Host(name=device.host, hostname=device.address, platform=device.platform, defaults=defaults)
        hosts[device.host] = known.get(device.host, stranger)
    inventory = Inventory(hosts=hosts, groups=nornir.inventory.groups, defaults=defaults)
    return Nornir(inventory=inventory, runner=nornir.runner, config=nornir.config)
