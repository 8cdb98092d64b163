"""A job at a remote service followed to its end, with the live view that a local run has.

A connection that breaks and a service that is restarted are waited for; the run continues meanwhile. A run that was
killed there is resumed by the service itself, in jobs of their own: these are followed, too.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from flashferry.api.watching import View
from flashferry.cli.terminal.output import command, report_to_programs, say
from flashferry.model.exit_codes import ExitCode
from flashferry.service.client.answers import ServiceRefused, ServiceUnusable
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.stream import MOST_DEVICES, PATIENCE_S, run_events
from flashferry.service.client.values import RemoteJob
from flashferry.store.run_lock import RunState

LOOK_S = 1.0
"""Pause between two requests for the state of a job."""
SUCCESSOR_S = 30.0
"""How long the service gets to resume a run that was killed; its first try comes at once."""

_RUNS = frozenset({"stage", "resume", "probe"})
_DEAD = "dead"
_CONTINUES = frozenset({"stage", "resume"})


@contextmanager
def leaving_alone(words: Callable[[], str]) -> Iterator[None]:
    """Have Ctrl-C end only the following: what was started at the service continues there.

    Args:
        words: Returns what to print then, and what to type.
    """

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        raise KeyboardInterrupt

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        text = f"interrupted; {words()}"
        say(text)
        meaning = "interrupted by the operator; what the service has started continues there"
        report_to_programs(text, ExitCode.INTERRUPTED, meaning)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def continues(what: str) -> Callable[[], str]:
    """Return what says that a job without a run continues; it is named with its article: `the check`."""
    return lambda: f"{what} continues at the service"


def job_ended(client: ServiceClient, job: RemoteJob, say: Callable[[str], None] = say) -> RemoteJob:
    """Return a job that changes no device, once it has ended; what it waits for is printed."""
    return next(seen for seen in _states(client, job, say) if not seen.is_open)


class Follower:
    """Follows a run from the job that started it to the one that ended it.

    Args:
        client: Sends requests to the service.
        job: The job.
        clock: Seconds, going up.
    """

    def __init__(self, client: ServiceClient, job: RemoteJob, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self.job = job

    @property
    def run_id(self) -> str | None:
        """The run, once it is known."""
        return self.job.run_id

    def follow(self, view: View) -> RemoteJob:
        """Show what happens in the run until it has ended, and return its last job.

        Raises:
            ServiceRefused: The user cannot see it any more.
            ServiceUnusable: The service did not answer for too long.
        """
        while True:
            self._show(view)
            if self.job.state != _DEAD or (after := self._successor(view)) is None:
                return self.job
            self.job = after

    def _show(self, view: View) -> None:
        """Show what the present job does until it has ended."""
        is_shown = False
        for job in _states(self._client, self.job, view.say):
            self.job = job
            if not is_shown and self._has_started():
                is_shown = True
                self._show_events(str(self.job.run_id), view)
            if not job.is_open:
                return

    def _has_started(self) -> bool:
        """Return whether the job's run is under way or over: a resumed run is known before it is."""
        if self.job.run_id is None or self.job.kind not in _RUNS:
            return False
        return self.job.kind != "resume" or self._client.run(self.job.run_id).state is RunState.ALIVE

    def _show_events(self, run_id: str, view: View) -> None:
        hosts: set[str | None] = set()
        try:
            for event in run_events(self._client, run_id, view.say):
                hosts.add(event.host)
                if len(hosts) > MOST_DEVICES:
                    raise ServiceUnusable(
                        f"run {run_id}: the service reports more devices than a run has, over {MOST_DEVICES:,}",
                        hint="Is that a flashferry service?",
                    )
                view(event)
        except ServiceRefused as error:
            # Without events the job's state is still followed.
            view.say(f"the events of run {run_id} cannot be shown: {error.message}")

    def _successor(self, view: View) -> RemoteJob | None:
        """Return the job by which the service resumes a run that was killed; None where it does not."""
        dead, until_s = self.job, self._clock() + SUCCESSOR_S
        if dead.run_id is None:
            return None
        view.say(f"run {dead.run_id} died: {dead.sentence or 'no reason was given'}; the service restores what it left")
        while self._clock() < until_s:
            for job in reversed(self._client.run(dead.run_id).jobs):
                if job.job_id == dead.job_id:
                    break
                if job.is_open:
                    until_s = self._clock() + SUCCESSOR_S
                if job.kind in _CONTINUES:
                    view.say(f"the service resumes run {dead.run_id}, job {job.job_id}")
                    return job
            self._client.pause(LOOK_S)
        return None


def _states(client: ServiceClient, job: RemoteJob, say: Callable[[str], None]) -> Iterator[RemoteJob]:
    """Yield a job again and again, each time in its present state; a service that does not answer is waited for."""
    printed, away_s = "", 0.0
    while True:
        if job.is_open and job.sentence and job.sentence != printed:
            printed = job.sentence
            say(f"job {job.job_id}: {printed}")
        yield job
        client.pause(LOOK_S)
        try:
            job = client.job(job.job_id)
        except ServiceUnusable as error:
            if not error.passes or (away_s and time.monotonic() - away_s > PATIENCE_S):
                raise
            if not away_s:
                away_s = time.monotonic()
                say(f"{error.message}. Trying again; what it has started continues there")
        else:
            away_s = 0.0


def run_continues(run_id: str | None) -> str:
    """Return what to know and to type after Ctrl-C; the run is None where it is not known whether it has started."""
    if run_id is None:
        return f"the service starts the run that was asked for all the same: '{command('status')}' shows it"
    return (
        f"run {run_id} continues at the service: '{command(f'run follow {run_id}')}' follows it again, "
        f"'{command(f'run pause {run_id} --reason WHY')}' starts no further device, "
        f"'{command(f'run stop {run_id} --reason WHY')}' ends it and restores"
    )
