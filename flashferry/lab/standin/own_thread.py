"""Run blocking work in a thread of its own: a hundred copies, or hash runs, must not queue for a pool."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises; nothing where no caller waits for it any more."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def end(found: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", found))

    def run() -> None:
        found: T | None = None
        error: BaseException | None = None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001 - handed to the waiting session, whatever it is
            error = raised
        with contextlib.suppress(RuntimeError):  # the devices of the site have been switched off meanwhile
            loop.call_soon_threadsafe(end, found, error)

    threading.Thread(target=run, name="device-work", daemon=True).start()
    return await done
