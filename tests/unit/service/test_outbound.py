"""What leaves the service is bounded: by one deadline, by bytes, by threads, whatever the other side does."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import threading
from http import HTTPStatus

import httpx
import pytest

from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.outbound import (
    MOST_OF_A_SHARE,
    MOST_THREADS,
    MOST_WAITING,
    MOST_WAITING_OF_A_SHARE,
    HttpRequest,
    NoAnswer,
    OwnThreads,
    ask,
    json_object,
)
from tests.patience import PATIENCE_S, until, until_async
from tests.unit.service.hooks.receivers import hostile_receiver

HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "nothing": [b""] * 10**6,
    "a status line": [HEAD[:5], *[b" "] * 10**6],
    "headers": [HEAD, *[b"a: b\r\n"] * 10**6],
    "steps before the answer": [b"HTTP/1.1 102 Processing\r\n\r\n"] * 10**6,
    "a body": [HEAD + b"\r\n", *[b" "] * 10**6],
    "chunks": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 10**6],
}


def get(url, *, most_s=PATIENCE_S, most_bytes=1000):
    request = HttpRequest(method="GET", url=url, headers={})
    return ask(httpx.Client(timeout=PATIENCE_S), request, most_s=most_s, most_bytes=most_bytes)


@pytest.mark.parametrize("drip", DRIPS)
def test_a_deadline_is_one_of_the_whole_request(drip):
    """Each byte is in time, and the request is not; its connection is ended, so that nothing is left of it."""
    with hostile_receiver(lambda: DRIPS[drip], every_s=0.01) as hostile:
        with pytest.raises(NoAnswer, match=r"no answer within 0\.5 s"):
            get(f"{hostile.url}/", most_s=0.5, most_bytes=10**9)
        # A server that sends nothing does not notice.
        until(lambda: hostile.ended == 1 or drip == "nothing", "the end of the connection")


def test_an_answer_without_an_end_is_read_to_its_bound():
    """More than the buffers of a connection is never taken."""
    flood = itertools.chain([HEAD + b"\r\n"], itertools.repeat(b"x" * 65536))
    with hostile_receiver(lambda: flood) as hostile:
        with pytest.raises(NoAnswer, match="at most 1,000 bytes, found a longer one"):
            get(hostile.url)
        until(lambda: hostile.ended == 1, "the end of the connection")
    assert hostile.sent_bytes < 64 * 2**20


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"gzip, gzip"])
def test_nothing_is_decompressed(coding):
    """A small body that is large when it is unpacked is refused, whatever it is packed by."""
    bomb = gzip.compress(b" " * 100_000)
    with (
        hostile_receiver(lambda: [HEAD + b"Content-Encoding: " + coding + b"\r\n\r\n", bomb]) as hostile,
        pytest.raises(NoAnswer, match="not compressed"),
    ):
        get(hostile.url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/", "http://[::1/", "nowhere", "http://127.0.0.1:1/\x00"])
def test_an_address_that_cannot_be_asked_is_no_answer(url):
    """In a sentence."""
    with pytest.raises(NoAnswer):
        get(url)


def test_a_good_answer_is_given_as_it_was_sent():
    """Status, headers, body."""
    with hostile_receiver(lambda: [HEAD + b"X-A: b\r\n\r\n", b'{"a": 1}']) as hostile:
        answer = get(hostile.url)
    assert (answer.status, answer.headers["x-a"], json_object(answer.body)) == (200, "b", {"a": 1})


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b'{"a":' * 200_000, b"[]", b"\xff", b"", b"9" * 10_000, b"{", b"null"], ids=range(8)
)
def test_what_is_no_object_of_json_is_refused(body):
    """However deep, long or odd."""
    with pytest.raises(NoAnswer, match="expected a JSON object"):
        json_object(body)


def test_few_threads_serve_one_kind_and_hold_up_no_other():
    """What is too much of one kind is refused at once; another kind goes on; what waits is done in its turn."""
    threads, hold, lock = OwnThreads(), threading.Event(), threading.Lock()
    inside = most = 0

    def work():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        hold.wait(PATIENCE_S)
        with lock:
            inside -= 1
        return "done"

    async def play():
        held = [asyncio.ensure_future(threads.run("slow", work)) for _ in range(MOST_THREADS)]
        await until_async(lambda: inside == MOST_THREADS, "all threads at work")
        held += [asyncio.ensure_future(threads.run("slow", work)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as caught:
            await threads.run("slow", work)
        assert status_of(caught.value) is HTTPStatus.SERVICE_UNAVAILABLE
        assert await threads.run("quick", lambda: "at once") == "at once"
        hold.set()
        return await asyncio.gather(*held)

    assert asyncio.run(play()) == ["done"] * (MOST_THREADS + MOST_WAITING)
    assert most == MOST_THREADS


def test_what_a_thread_raises_is_raised_where_it_is_waited_for():
    """And the thread is free again."""
    threads = OwnThreads()

    def fail():
        raise NoAnswer("no")

    with pytest.raises(NoAnswer, match="no"):
        asyncio.run(threads.run("a", fail))
    assert asyncio.run(threads.run("a", lambda: 1)) == 1


def test_who_goes_away_has_no_place_in_the_queue():
    """What is no longer waited for is not done."""
    threads, hold, done = OwnThreads(), threading.Event(), []

    async def play():
        held = [asyncio.ensure_future(threads.run("a", lambda: hold.wait(PATIENCE_S))) for _ in range(MOST_THREADS)]
        await asyncio.sleep(0)
        gone = asyncio.ensure_future(threads.run("a", lambda: done.append(1)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(*held)
        await threads.run("a", lambda: None)

    asyncio.run(play())
    assert done == []


def test_one_address_has_neither_all_threads_nor_all_places():
    """Sixty tries of strangers hang; a sign-in from elsewhere is done at once, and theirs are done in the end."""
    threads, hold, at_work = OwnThreads(), threading.Event(), []

    def work():
        at_work.append(1)
        hold.wait(PATIENCE_S)
        return "done"

    async def play():
        most = MOST_OF_A_SHARE + MOST_WAITING_OF_A_SHARE
        held = [asyncio.ensure_future(threads.run("a", work, share="stranger")) for _ in range(MOST_OF_A_SHARE)]
        await until_async(lambda: len(at_work) == MOST_OF_A_SHARE, "the stranger's threads at work")
        held += [asyncio.ensure_future(threads.run("a", work, share="stranger")) for _ in range(60 - MOST_OF_A_SHARE)]
        assert await threads.run("a", lambda: "at once", share="ann") == "at once"
        assert len(at_work) == MOST_OF_A_SHARE
        hold.set()
        found = await asyncio.gather(*held, return_exceptions=True)
        assert found[:most] == ["done"] * most
        assert all(isinstance(one, ServiceError) for one in found[most:])

    asyncio.run(play())


def test_what_is_done_once_is_had_by_all_that_wait():
    """Of one failure, too; who asks afterwards has it done anew, and one that goes away ends it for no other."""
    threads, hold, asked = OwnThreads(), threading.Event(), []

    def work():
        asked.append(1)
        hold.wait(PATIENCE_S)
        if len(asked) == 1:
            raise NoAnswer("no")
        return "good"

    async def play():
        waiting = [asyncio.ensure_future(threads.once("a", work)) for _ in range(60)]
        await until_async(lambda: len(asked) == 1, "the work")
        waiting.pop(0).cancel()
        hold.set()
        assert all(isinstance(one, NoAnswer) for one in await asyncio.gather(*waiting, return_exceptions=True))
        assert await threads.once("a", work) == "good"

    asyncio.run(play())
    assert len(asked) == 2
