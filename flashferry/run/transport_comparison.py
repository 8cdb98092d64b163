"""A speed test that compares transports: a timed copy to `null:` by each, in one login, tuned as a run would tune it.

The lines of each are taken back before those of the next are set, and the journal knows all of them, as where a run
falls from one transport to the next.
"""

from __future__ import annotations

from dataclasses import replace

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.devices.cpu import cpu_use
from flashferry.devices.errors import (
    CopyFailed,
    DeviceRefused,
    DialogueDisturbed,
    OutputNotUnderstood,
    QuestionLeft,
    Stopped,
    TransferStalled,
)
from flashferry.model.probe_result import ProbeResult, TransportArm, window_ceiling_bytes_per_s
from flashferry.model.record import sentence_of
from flashferry.model.states import Outcome
from flashferry.planning.probe_files import ProbeFiles
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import revoke_ticket
from flashferry.run.device.transports import next_transport, plan_now
from flashferry.run.device.tune import switch_lines
from flashferry.run.device_plan import DevicePlan
from flashferry.run.probe import SpeedTest, SpeedTestOptions
from flashferry.store.history import History
from flashferry.tcp.verdict_rules import VerdictKind
from flashferry.transports.choice import unserved, wish_of
from inventory.transport_policy import AUTO
from tasks.snapshot import Snapshot

_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused, OutputNotUnderstood)
_OF_DEVICE = (Stopped, QuestionLeft, DialogueDisturbed)


class TransportComparison(SpeedTest):
    """Copies to `null:` by each transport that is allowed, and says which was the fastest."""

    def __init__(
        self, run: DeviceRun, probe: SpeedTestOptions, files: ProbeFiles, history: History | None = None
    ) -> None:
        super().__init__(run, probe, files, history)
        self._rows: list[TransportArm] = []

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Time each transport; whatever it raises, the caller restores."""
        self.run.update(probe=ProbeResult(image_bytes=self._probe.image_bytes))
        self._note_unserved()
        for tried in self.run.record.transports_tried:
            self._add(TransportArm(transport=tried.transport, reason=tried.reason))
        last: FlashferryError | None = None
        going_on: DevicePlan | None = plan
        while going_on is not None:
            try:
                self._add(self._timed_by(going_on, before))
            except _OF_TRANSPORT as error:
                if isinstance(error, _OF_DEVICE) or self.run.context.interrupted():
                    raise
                last = error
                self._fail(error)
            revoke_ticket(self.run)
            going_on = self._next_plan(before)
        best = next((row.transport for row in self._marked if row.is_best), None)
        if best is None:
            assert last is not None, "who timed nothing has failed"
            raise last
        self.run.update(transport=best, transports_tried=(), outcome=Outcome.DONE)

    def _note_unserved(self) -> None:
        """Have the report say by what no copy is timed though the inventory allows it, where no names were given."""
        certificate, key = self.run.context.certificate or (None, None)
        asked, not_served = self.run.context.policy.transport, self.run.context.not_served
        wish = wish_of(asked, certificate=certificate, key=key, not_served=not_served)
        for sentence in unserved(self.run.host.transport_policy, wish) if wish.asked == AUTO else ():
            self.run.note(sentence)

    def _timed_by(self, plan: DevicePlan, before: Snapshot) -> TransportArm:
        """Have the lines of the transport in force, and copy until a copy was long enough to count."""
        transport = self.run.transport.name
        switch_lines(self.run, plan.tune, before)
        # Behind a small window the size that fills the link would take an hour: a pilot finds it.
        arm = self.time_arm(f"by {transport}", plan.target, expected_bytes_per_s=None)
        seen = self.run.record.transfer
        return TransportArm(
            transport=transport,
            arm=arm,
            image_s=self.forecast(arm),
            ceiling_bytes_per_s=window_ceiling_bytes_per_s(seen) if seen is not None else None,
            cpu=cpu_use(self.run.session()),
        )

    def _next_plan(self, before: Snapshot) -> DevicePlan | None:
        """Go on to the next transport that can be planned; those that cannot have a row of their own."""
        while self.run.next_transports:
            transport = next_transport(self.run)
            self.run.update(transport=transport.name, pull=None, transfer=None)
            try:
                return plan_now(self.run, before.running)
            except ConfigInvalid as error:
                self._fail(error)
        return None

    def _fail(self, error: FlashferryError) -> None:
        """Have a row for a transport that could not be timed."""
        row = TransportArm(transport=self.run.transport.name, reason=sentence_of(error))
        self.run.event("probe", "note", f"note: by {row.transport}: {row.reason}")
        self._add(row)

    def _add(self, row: TransportArm) -> None:
        self._rows.append(row)
        self.set_result(by_transport=self._marked)

    @property
    def _marked(self) -> tuple[TransportArm, ...]:
        """Return the rows with the fastest marked.

        What our own cap held back was as fast as its share, which is the neighbours' doing and not the transport's: of
        several such the first in the order of preference is marked.
        """
        timed = [row for row in self._rows if row.arm is not None]
        best = max(timed, key=_rank, default=None)
        if best is not None and _is_capped(best):
            best = next(row for row in timed if _is_capped(row))
        return tuple(replace(row, is_best=row is best) for row in self._rows)


def _is_capped(row: TransportArm) -> bool:
    return row.arm is not None and row.arm.verdict.kind is VerdictKind.CAP


def _rank(row: TransportArm) -> tuple[float, float]:
    """Return what the fastest has most of: by the time for the image, else by the rate."""
    assert row.arm is not None
    return (-(row.image_s or float("inf")), row.arm.steady_bytes_per_s)
