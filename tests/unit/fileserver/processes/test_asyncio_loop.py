"""The guest's loop within asyncio's: how it is left."""

from flashferry.fileserver.processes.asyncio_loop import AsyncioLoop


def test_a_turn_during_the_parting_is_no_error():
    """What is still due when the loop was left, such as the parent's closed line, makes no error of its end."""
    loop = AsyncioLoop()
    turns: list[str] = []
    try:
        loop.run_while(lambda: False)
        loop.call_later(0.05, turns.append, "late")
        loop.part()
    finally:
        loop.close()
        loop.asyncio.close()
    assert turns == ["late"]
