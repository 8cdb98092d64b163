"""A job at a remote service followed to its end: what it waits for, and the run's live view as a local run has it.

A connection that breaks, or a service that is restarted, is waited for; the run goes on meanwhile. A run that died
there is gone on with by the service itself, in jobs of their own: these are followed, too.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flashferry.api.watching import View
from flashferry.cli.remote.results import leave_interrupted
from flashferry.cli.terminal.output import command, say
from flashferry.service.client.answers import ServiceRefused, ServiceUnusable
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.stream import MOST_DEVICES, PATIENCE_S, run_events
from flashferry.service.client.values import RemoteJob
from flashferry.store.run_lock import RunState

LOOK_S = 1.0
"""So often a job is looked at."""
SUCCESSOR_S = 30.0
"""So long after the death of a run it is waited for what the service does about it; its first try comes at once."""

_RUNS = frozenset({"stage", "resume", "probe"})
_DEAD = "dead"
_GOES_ON = frozenset({"stage", "resume"})


@contextmanager
def leaving_alone(words: Callable[[], str]) -> Iterator[None]:
    """Have Ctrl-C end the looking on alone: what was begun at the service goes on there.

    Args:
        words: Returns what to say then, and what to type.
    """

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        raise KeyboardInterrupt

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        leave_interrupted(words())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def job_goes_on(what: str) -> Callable[[], str]:
    """Return what says that something without a run goes on; it is named with its article: `the check`."""
    return lambda: f"{what} goes on at the service"


def job_ended(client: ServiceClient, job: RemoteJob, tell: Callable[[str], None] = say) -> RemoteJob:
    """Return a job that changes no device, once it has ended; what it waits for is told."""
    return next(seen for seen in _looks(client, job, tell) if not seen.is_open)


class Follower:
    """Follows a run from the job that was asked for to the one that ended it.

    Args:
        client: Asks the service.
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
        """Return the last job of the run, once it has ended, and show what happens meanwhile.

        Raises:
            ServiceRefused: It may not be looked at any more.
            ServiceUnusable: Nothing was heard of the service for too long.
        """
        while True:
            self._show(view)
            if self.job.state != _DEAD or (after := self._successor(view)) is None:
                return self.job
            self.job = after

    def _show(self, view: View) -> None:
        """Show what the job of now does, until it has ended."""
        is_shown = False
        for job in _looks(self._client, self.job, view.say):
            self.job = job
            if not is_shown and self._has_begun():
                is_shown = True
                self._show_events(str(self.job.run_id), view)
            if not job.is_open:
                return

    def _has_begun(self) -> bool:
        """Return whether the job's run is under way, or was between two looks: one gone on with is known before."""
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
                        f"run {run_id}: the service tells of more devices than a run has, over {MOST_DEVICES:,}",
                        hint="Is that a flashferry service?",
                    )
                view(event)
        except ServiceRefused as error:
            # Without events there is the job to look at.
            view.say(f"what happens in run {run_id} is not told: {error.message}")

    def _successor(self, view: View) -> RemoteJob | None:
        """Return the job by which the service goes on after a death; None where it does nothing more."""
        dead, until_s = self.job, self._clock() + SUCCESSOR_S
        if dead.run_id is None:
            return None
        view.say(f"run {dead.run_id} died: {dead.sentence or 'nobody said why'}; the service restores what it left")
        while self._clock() < until_s:
            for job in reversed(self._client.run(dead.run_id).jobs):
                if job.job_id == dead.job_id:
                    break
                if job.is_open:
                    until_s = self._clock() + SUCCESSOR_S
                if job.kind in _GOES_ON:
                    view.say(f"the service goes on with run {dead.run_id}, job {job.job_id}")
                    return job
            self._client.pause(LOOK_S)
        return None


def _looks(client: ServiceClient, job: RemoteJob, tell: Callable[[str], None]) -> Iterator[RemoteJob]:
    """Yield a job again and again, each time as it is now; a service that is away is waited for."""
    said, away_s = "", 0.0
    while True:
        if job.is_open and job.sentence and job.sentence != said:
            said = job.sentence
            tell(f"job {job.job_id}: {said}")
        yield job
        client.pause(LOOK_S)
        try:
            job = client.job(job.job_id)
        except ServiceUnusable as error:
            if not error.passes or (away_s and time.monotonic() - away_s > PATIENCE_S):
                raise
            if not away_s:
                away_s = time.monotonic()
                tell(f"{error.message}. It is tried again; what it has begun goes on there")
        else:
            away_s = 0.0


def run_goes_on(run_id: str | None) -> str:
    """Return what to know and to type after Ctrl-C; the run is None while nobody knows whether it has begun."""
    if run_id is None:
        return f"a run that was asked for is begun at the service all the same: '{command('status')}' tells"
    return (
        f"run {run_id} goes on at the service: '{command(f'run follow {run_id}')}' looks on again, "
        f"'{command(f'run pause {run_id} --reason WHY')}' has no further device begin, "
        f"'{command(f'run stop {run_id} --reason WHY')}' ends it and restores"
    )
