"""What wakes the main thread: news from threads, and signals, whichever thread they are given to."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

import pytest

from flashferry.cli.terminal.interrupt import SignalQueue, stop_on_signals
from tests.patience import PATIENCE_S


def test_everything_comes_out_once_and_in_order():
    """Eight threads put in while one takes out: nothing is lost, nothing twice, each thread's in its order."""
    with SignalQueue[tuple[int, int]]() as queue:
        threads = [
            threading.Thread(target=lambda who=who: [queue.put((who, number)) for number in range(2000)])
            for who in range(8)
        ]
        for thread in threads:
            thread.start()
        found: list[tuple[int, int]] = []
        while len(found) < 16_000:
            taken = queue.take(PATIENCE_S)
            assert taken, "nothing came"
            found += taken
        for thread in threads:
            thread.join()
    for who in range(8):
        assert [number for other, number in found if other == who] == list(range(2000))


@contextmanager
def waking_late(queue):
    """End a wait that no signal ends: put something once the patience is over."""
    timer = threading.Timer(PATIENCE_S, queue.put, (0,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.parametrize("receiver", ["process", "another thread"])
def test_a_signal_ends_the_wait(receiver):
    """The handler has run when the wait is over, although another thread was given the signal."""
    asleep = threading.Event()
    other = threading.Thread(target=asleep.wait)
    other.start()
    try:
        with stop_on_signals() as stop, SignalQueue[int]() as queue, waking_late(queue):
            for _ in range(50):
                stop.clear()
                if receiver == "process":
                    os.kill(os.getpid(), signal.SIGTERM)
                else:
                    signal.pthread_kill(other.ident, signal.SIGTERM)
                while not stop.is_set():
                    assert not queue.take(2 * PATIENCE_S), "the wait ended by what the timer put, not by the signal"
    finally:
        asleep.set()
        other.join()


def test_a_box_that_is_closed_takes_nothing():
    """Somebody who still has something to tell does not write where another descriptor may be by now."""
    with SignalQueue[int]() as queue:
        queue.put(1)
    queue.put(2)
    assert signal.set_wakeup_fd(-1) == -1
