"""How often the verdict on a transfer under way is formed."""

from flashferry.fileserver.transfer_reporter import InterimVerdict


def test_an_hour_takes_few_looks() -> None:
    """Not before five seconds, then ever more rarely: fewer than twenty in 3600 readings, the last late."""
    so_far = InterimVerdict("ticket")
    looks = [second for second in range(3600) if so_far.is_due(float(second))]
    assert looks[0] >= 5
    assert len(looks) < 20
    assert looks[-1] > 2000


def test_transfers_that_began_together_do_not_look_together() -> None:
    """A hundred transfers share no more than a few looks of any one second after the first minute."""
    looks: list[int] = []
    for number in range(100):
        so_far = InterimVerdict(f"ticket {number}")
        looks += [second for second in range(600) if so_far.is_due(float(second)) and second > 60]
    assert max(looks.count(second) for second in set(looks)) <= 25
