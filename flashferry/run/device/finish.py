"""What follows the restore of a device that has the image: added where that is asked for, then looked at as a whole.

The device is as it was by then, and nobody's: no lease is held. Whoever dies here leaves a device that is staged; the
next run finds the image there, and does what is left.
"""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.images.release import release_of_image
from flashferry.model.states import Outcome
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from tasks.add import ADD, AddOutcome, AddReport, add


class DeviceFinish:
    """Does what follows a device's restore."""

    def __init__(
        self, context: RunContext, events: DeviceEvents, keeper: RecordKeeper, steps: StepRunner, login: DeviceLogin
    ) -> None:
        self._context, self._events, self._keeper = context, events, keeper
        self._steps, self._login = steps, login

    def finish(self) -> None:
        """Go through the steps; the first that fails is the device's failure, which stays restored."""
        record = self._keeper.record
        has_image = record.outcome in {Outcome.DONE, Outcome.ALREADY_THERE} and record.failure is None
        if not has_image or self._context.options.to_null or not self._context.options.add:
            return
        try:
            self._add(f"{self._keeper.checked.file_system}{self._context.image.name}")
        except FlashferryError as error:
            self._keeper.take_failure(error)
            self._keeper.move_to_failed()

    def _add(self, path: str) -> None:
        if self._login.is_logged_out:
            self._login.connect()
        image = self._context.image
        release = release_of_image(image.inside or "") or release_of_image(image.name)
        report: AddReport = self._steps.run(
            ADD, add, path=path, release=release, tell=lambda line: self._events.tell(ADD.word, "note", line)
        )
        self._keeper.keep(ADD, report)
        self._events.tell(ADD.word, "note", in_words(report))


def in_words(report: AddReport) -> str:
    """Return what became of an add, in words for who watches."""
    if report.outcome is AddOutcome.NOT_APPLICABLE:
        return "not added: it boots from image files, not from packages"
    return f"{report.outcome.value}: {report.version}"
