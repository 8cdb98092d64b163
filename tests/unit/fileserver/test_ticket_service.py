"""The ticket service with a clock of the test's own."""

from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.fixed_login import CommandBudget, FailureBook, FixedLogin, admit
from flashferry.fileserver.rate_limits import Cap, SiteLoad
from flashferry.fileserver.settings import Limits, ListenerSettings, SenderProfile, ServerSettings
from flashferry.fileserver.ticket_accounts import (
    CLOSED_KEPT_S,
    MOST_CLOSED,
    Account,
    Refusal,
    Ticket,
    TicketRequest,
    issue,
)
from flashferry.fileserver.ticket_service import TicketService, mask
from flashferry.fileserver.transfer_records import EventKind, LoginFailure, ServerEvent, TicketUse, TransferState
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from flashferry.tcp.tcp_info import parse_tcp_info
from flashferry.transports.transport import delivered_whole

IMAGE = ImageFile(
    name="a.bin",
    size_bytes=10,
    md5="",
    sha512="",
    path=Path("/images/a.bin"),
    identity=FileIdentity(device=1, inode=2, size_bytes=10, mtime_ns=3, ctime_ns=4),
)


class _Room:
    """A ticket service whose time stands still until told otherwise, and what it said."""

    def __init__(self, **profile: Any) -> None:
        self.now_s = 100.0
        self.events: list[ServerEvent] = []
        self.failures: list[LoginFailure] = []
        settings = ServerSettings(
            image_paths=(),
            listeners=(ListenerSettings(protocol="nobody:LISTENS"),),
            profile=SenderProfile(**profile),
            limits=Limits(failed_logins=3, ban_s=60),
        )
        self.tickets = TicketService(settings, self.events.append, clock=lambda: self.now_s, wall=lambda: 1e9)
        self.tickets.on_login_failure = self.failures.append

    def ticket(self, **request: Any) -> Ticket:
        ticket, grant = issue(TicketRequest(image_name="a.bin", **request), IMAGE)
        self.tickets.add(grant)
        return ticket

    def account(self, ticket: Ticket) -> Account:
        account = self.tickets.login(ticket.username, ticket.password, "192.0.2.1")
        assert isinstance(account, Account)
        return account


class _Channel:
    def __init__(self) -> None:
        self.caps: list[int | None] = []
        self.cuts: list[str] = []
        self.goes_on = False

    def apply_cap(self, cap: Cap | None) -> None:
        self.caps.append(cap.bytes_per_s if cap else None)

    def cut(self, reason: str) -> None:
        self.cuts.append(reason)

    def yield_to_newer(self, reason: str) -> None:
        self.cut(reason)

    def go_on(self) -> None:
        self.goes_on = True


class _Session:
    def __init__(self) -> None:
        self.ends: list[str] = []

    def yield_to_newer(self, reason: str) -> None:
        self.ends.append(f"gave way: {reason}")

    def send_away(self, reason: str) -> None:
        self.ends.append(f"sent away: {reason}")


def test_a_ticket_delivers_to_one_data_connection() -> None:
    """The newest RETR takes over: the transfer that runs is cut, and all other sessions of the ticket give way."""
    room = _Room()
    account, channel = room.account(room.ticket()), _Channel()
    old, newest = _Session(), _Session()
    account.sessions |= {old, newest}
    room.tickets.begin(account, channel)
    room.tickets.take_over(account, newest)
    assert channel.cuts == ["superseded by a new transfer with the same ticket"]
    assert (len(old.ends), newest.ends) == (1, [])


def test_what_gives_way_to_another_process_is_told_with_the_tries_left() -> None:
    """The try that is used there is counted before the transfer here is cut, and told with its end."""
    room = _Room()
    ticket = room.ticket(tries=2)
    account, channel = room.account(ticket), _Channel()
    told: list[int] = []
    channel.cut = lambda _: told.append(account.progress.tries_left)  # type: ignore[method-assign]
    room.tickets.begin(account, channel)
    room.tickets.use_elsewhere(ticket.ticket_id, 2, is_delivered=True)
    assert told == [0]
    assert account.progress.state is TransferState.DELIVERED


def test_a_revoked_ticket_keeps_no_session() -> None:
    """All that logged in with it are sent away, not the one alone that transfers."""
    room = _Room()
    ticket = room.ticket()
    account = room.account(ticket)
    sessions = [_Session(), _Session(), _Session()]
    account.sessions |= set(sessions)
    room.tickets.revoke(ticket.ticket_id)
    assert [session.ends for session in sessions] == [["sent away: ticket revoked"]] * 3


def test_a_ticket_lets_in_until_its_last_second() -> None:
    """Just before the expiry it is good, at the expiry it is not."""
    room = _Room()
    ticket = room.ticket(lifetime_s=60)
    room.now_s += 59.9
    assert isinstance(room.tickets.login(ticket.username, ticket.password, "192.0.2.1"), Account)
    room.now_s += 0.1
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.EXPIRED


def test_reasons_are_told_to_us_and_not_put_down_to_others() -> None:
    """A wrong password changes its own ticket, an unknown user none."""
    room = _Room()
    ticket, other = room.ticket(), room.ticket()
    assert room.tickets.login(ticket.username, "x", "192.0.2.9") is Refusal.WRONG_PASSWORD
    assert room.tickets.login("stranger", "x", "192.0.2.9") is Refusal.UNKNOWN_USER
    (event,) = room.events
    assert event.progress is not None
    assert event.progress.ticket_id == ticket.ticket_id != other.ticket_id
    assert (event.kind, event.text) == (EventKind.LOGIN_FAILED, "login refused for 192.0.2.9: wrong password")
    (failure,) = room.failures
    assert failure.username_masked == "s***"


def test_a_connection_is_put_down_only_to_a_single_waiting_ticket() -> None:
    """Two tickets for one address, or one for any address, leave a mere connection unattributed."""
    room = _Room()
    room.ticket()
    room.tickets.connected("192.0.2.1", None)
    assert room.events == []
    room.ticket(source_addresses=("192.0.2.1",))
    room.tickets.connected("192.0.2.1", None)
    assert [event.kind for event in room.events] == [EventKind.CONNECTED]
    room.ticket(source_addresses=("192.0.2.2",))
    room.ticket(source_addresses=("192.0.2.0/24",))
    room.tickets.connected("192.0.2.2", None)
    assert len(room.events) == 1


def test_a_site_s_cap_is_shared_and_the_least_cap_holds() -> None:
    """Each running transfer gets its share, never more than ticket and profile allow."""
    room = _Room(cap_bytes_per_s=900_000)
    room.tickets.set_site_cap("branch", Cap(bytes_per_s=1_000_000, source="given"))
    first, second = room.account(room.ticket(site="branch")), room.account(room.ticket(site="branch"))
    outside = room.account(room.ticket(cap_bytes_per_s=100_000))
    assert room.tickets.cap_of(first) == Cap(bytes_per_s=900_000, source="the server's profile")
    channels = [_Channel(), _Channel(), _Channel()]
    for account, channel in zip((first, second, outside), channels, strict=True):
        room.tickets.begin(account, channel)
    assert [channel.caps[-1] for channel in channels] == [500_000, 500_000, 100_000]
    room.tickets.end(second, channels[1])
    assert channels[0].caps[-1] == 900_000
    room.tickets.set_site_cap("branch", None)
    room.tickets.set_cap(outside.grant.ticket_id, None)
    assert channels[2].caps[-1] == 900_000


def test_revoking_cuts_a_running_transfer() -> None:
    """The channel is told why."""
    room = _Room()
    ticket = room.ticket()
    account = room.account(ticket)
    channel = _Channel()
    room.tickets.begin(account, channel)
    room.tickets.revoke(ticket.ticket_id)
    assert channel.cuts == ["ticket revoked"]
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.REVOKED


def test_expiry_leaves_running_and_delivered_tickets_alone() -> None:
    """Only a ticket nobody is using is closed when its time is over, and that is told once."""
    room = _Room()
    ticket = room.ticket(lifetime_s=60)
    account = room.account(ticket)
    channel = _Channel()
    room.tickets.begin(account, channel)
    room.now_s += 60
    room.tickets.sweep()
    assert account.progress.state is TransferState.WAITING
    room.tickets.end(account, channel)
    room.tickets.sweep()
    assert (account.progress.state, account.progress.last_error) == (
        TransferState.FAILED,
        "ticket expired: no client came",
    )
    room.tickets.sweep()
    assert len(room.events) == 1


def test_a_closed_ticket_is_recognised_for_an_hour() -> None:
    """Whoever comes with a ticket that is over is put down to it; after an hour its user is a stranger."""
    room = _Room()
    ticket = room.ticket(lifetime_s=60, source_addresses=("192.0.2.1",))
    room.now_s += 60
    room.tickets.sweep()
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.EXPIRED
    room.now_s += CLOSED_KEPT_S
    room.tickets.sweep()
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.UNKNOWN_USER
    room.tickets.revoke(ticket.ticket_id)
    room.tickets.set_cap(ticket.ticket_id, 5_000)
    assert len(room.events) == 2


def test_only_the_latest_closed_tickets_are_kept() -> None:
    """However many tickets come and go, a few hundred closed ones are on the books, and every one that is good."""
    room = _Room()
    good = room.ticket()
    tickets = [room.ticket() for _ in range(MOST_CLOSED + 3)]
    for ticket in tickets:
        room.tickets.revoke(ticket.ticket_id)
    assert len(room.tickets._roster) == MOST_CLOSED + 1
    assert room.tickets.login(tickets[2].username, tickets[2].password, "192.0.2.1") is Refusal.UNKNOWN_USER
    assert room.tickets.login(tickets[3].username, tickets[3].password, "192.0.2.1") is Refusal.REVOKED
    assert isinstance(room.account(good), Account)


def test_a_ticket_in_use_is_not_closed() -> None:
    """One whose last try runs, or whose client is still there, stays; it is closed when the client leaves."""
    room = _Room()
    account = room.account(room.ticket(source_addresses=("192.0.2.1",)))
    account.sessions.add(session := _Session())
    channel = _Channel()
    room.tickets.begin(account, channel)
    room.tickets.change(account, EventKind.FAILED, "", state=TransferState.FAILED, tries_left=0)
    room.tickets.settle(account)
    room.tickets.end(account, channel)
    assert list(room.tickets._roster.bound) == [account]
    account.sessions.discard(session)
    room.tickets.settle(account)
    assert list(room.tickets._roster.bound) == []


def test_a_fixed_login_s_transfers_leave_no_account() -> None:
    """Each transfer has an account while it runs, and none once its session has gone on."""
    room = _Room()
    fixed = admit(FixedLogin(username="lab", password="Bench-2026"), (IMAGE,))
    room.tickets.admit(fixed)
    assert room.tickets.login("lab", "Bench-2026", "192.0.2.1") is fixed
    account = room.tickets.open(fixed, IMAGE, peer_address="192.0.2.1")
    channel = _Channel()
    room.tickets.begin(account, channel)
    room.tickets.forget(account.grant.ticket_id)
    assert room.tickets.running == [account]
    room.tickets.end(account, channel)
    room.tickets.forget(account.grant.ticket_id)
    assert len(room.tickets._roster) == 0
    (event,) = room.events
    assert (event.kind, event.peer_address) == (EventKind.NOTICE, "192.0.2.1")


def test_lockouts_spare_addresses_a_live_ticket_names() -> None:
    """Three failures lock an address out for a minute, unless a ticket that is still good names it."""
    room = _Room()
    for _ in range(3):
        room.tickets.login("x", "y", "192.0.2.1")
    assert room.tickets.locked_out("192.0.2.1")
    assert not room.tickets.locked_out("192.0.2.2")
    room.ticket(source_addresses=("192.0.2.1",), lifetime_s=30)
    assert not room.tickets.locked_out("192.0.2.1")
    room.now_s += 31
    assert room.tickets.locked_out("192.0.2.1")
    room.now_s += 30
    assert not room.tickets.locked_out("192.0.2.1")


def test_a_success_forgives_failures() -> None:
    """A mistyped password or two are forgotten with the first login that works."""
    room = _Room()
    ticket = room.ticket()
    for _ in range(2):
        room.tickets.login(ticket.username, "x", "192.0.2.1")
    room.account(ticket)
    room.tickets.login(ticket.username, "x", "192.0.2.1")
    assert not room.tickets.locked_out("192.0.2.1")


def test_a_flood_of_addresses_fills_no_memory() -> None:
    """Of a million addresses the latest ten thousand are remembered."""
    book = FailureBook(3, 60)
    for number in range(10_500):
        book.note(str(number), 0.0)
    assert len(book) == 10_000
    book.note("10499", 0.0)
    assert book.note("10499", 0.0)


def test_failures_are_forgotten_when_they_no_longer_count() -> None:
    """After the time of a ban nothing is left of an address, whether or not it comes again."""
    room = _Room()
    room.tickets.login("x", "y", "192.0.2.1")
    room.now_s += 40
    room.tickets.login("x", "y", "192.0.2.2")
    room.now_s += 21
    room.tickets.sweep()
    assert len(room.tickets.failures) == 1
    room.now_s += 40
    room.tickets.sweep()
    assert len(room.tickets.failures) == 0


def test_a_command_budget_fills_again_but_never_over() -> None:
    """The burst is available at once, then the steady rate; waiting long gains no more than the burst."""
    budget = CommandBudget(3, 2.0, 0.0)
    assert [budget.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [budget.take(0.5), budget.take(0.5)] == [True, False]
    assert [budget.take(1000.0) for _ in range(4)] == [True, True, True, False]


def test_notices_are_given_once() -> None:
    """A refused congestion control is said once, not per transfer."""
    room = _Room()
    room.tickets.notice("same")
    room.tickets.notice("same")
    assert [event.text for event in room.events] == ["same"]


def test_masked_names_show_one_letter() -> None:
    """Enough to recognise a mistyped name, too little to use; control characters do not get through."""
    assert [mask("cisco"), mask(""), mask("\x1b[2J")] == ["c***", "***", "?***"]


def test_a_delivery_is_never_taken_back() -> None:
    """A second session of the same ticket that fails later is told, and the image stays delivered."""
    room = _Room()
    account = room.account(room.ticket())
    room.tickets.change(account, EventKind.DONE, "delivered", state=TransferState.DELIVERED)
    room.tickets.change(account, EventKind.FAILED, "no data connection came", state=TransferState.FAILED)
    assert (account.progress.state, account.progress.last_error) == (TransferState.DELIVERED, "")
    assert (room.events[-1].kind, room.events[-1].text) == (EventKind.NOTICE, "no data connection came")


def test_transfers_of_a_site_find_their_pace_together() -> None:
    """Those of another site, and those of none, each have their own."""
    room = _Room()
    first, second, far, alone, other = (
        room.account(room.ticket(site=site)) for site in ("branch", "branch", "far", "", "")
    )
    info = parse_tcp_info(bytes(280))
    paces = []
    for account in (first, second, far, alone, other):
        pace = room.tickets.pace_of(account)
        pace.join(info, room.now_s, lambda _pace, _yields: None)
        paces.append(pace)
    assert paces[0] is paces[1]
    assert len({id(pace) for pace in paces}) == 4


def test_a_link_is_what_the_ticket_states_or_a_cap_of_its_site() -> None:
    """A stated rate goes before caps; a cap of the ticket or its site is the least of it, the profile's none."""
    room = _Room(cap_bytes_per_s=5_000)
    plain, capped = room.account(room.ticket(site="branch")), room.account(room.ticket(cap_bytes_per_s=40_000))
    stated = room.account(room.ticket(site="branch", link_bytes_per_s=1_946_666))
    assert [room.tickets.link_of(each) for each in (plain, capped, stated)] == [None, 40_000, 1_946_666]
    room.tickets.set_site_cap("branch", Cap(bytes_per_s=1_557_333, source="given for the site"))
    room.tickets.begin(plain, _Channel())
    room.tickets.begin(stated, _Channel())
    # Of a site's cap the whole counts, not a transfer's share of it.
    assert [room.tickets.link_of(each) for each in (plain, stated)] == [1_557_333, 1_946_666]
    # What was learned of the site's link is more than a guess from its cap, and less than what a ticket states.
    room.tickets.set_site_link("branch", 1_800_000)
    assert [room.tickets.link_of(each) for each in (plain, stated)] == [1_800_000, 1_946_666]
    room.tickets.set_site_link("branch", None)
    assert room.tickets.link_of(plain) == 1_557_333


def test_a_link_without_a_rate_is_refused() -> None:
    """A ticket whose link carries nothing is a mistake of whoever asked for it."""
    with pytest.raises(SettingsInvalid, match="expected a link's rate above 0 bytes/s, found 0"):
        TicketRequest(image_name="a.bin", link_bytes_per_s=0)


def test_a_fixed_login_hands_its_link_to_each_transfer() -> None:
    """What the operator stated of the link holds for every ticket that is made under it."""
    login = FixedLogin(username="ops", password="long-enough-1", link_bytes_per_s=1_946_666)
    assert admit(login, (IMAGE,)).grant(IMAGE).request.link_bytes_per_s == 1_946_666


def test_a_ticket_is_for_the_transports_that_it_names() -> None:
    """A login where none of them is served is refused and put down to the ticket; one that names none is for all."""
    room = _Room()
    ticket, any_ = room.ticket(transports=("x", "y")), room.ticket()
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1", ("z",)) is Refusal.WRONG_TRANSPORT
    assert room.events[-1].text == ("login refused for 192.0.2.1: the ticket is for another transport, x or y")
    for one, served in ((ticket, ("z", "y")), (any_, ("z",)), (ticket, ())):
        assert isinstance(room.tickets.login(one.username, one.password, "192.0.2.1", served), Account)


def test_who_connects_is_put_down_to_a_ticket_of_that_transport() -> None:
    """Of two tickets for an address the one that can be used there."""
    room = _Room()
    room.ticket(source_addresses=("192.0.2.1",), transports=("x",))
    other = room.ticket(source_addresses=("192.0.2.1",), transports=("y",))
    room.tickets.connected("192.0.2.1", None, ("y",))
    (event,) = room.events
    assert event.progress is not None
    assert event.progress.ticket_id == other.ticket_id


@pytest.mark.parametrize(("tries", "is_delivered"), [(3, False), (1, True)])
def test_a_ticket_that_was_used_elsewhere_is_worthless_here(tries: int, is_delivered: bool) -> None:
    """Its last try or delivery in another process counts here, what runs here gives way, and nobody is told twice."""
    room = _Room()
    ticket = room.ticket(tries=3)
    account, channel, session = room.account(ticket), _Channel(), _Session()
    account.sessions.add(session)
    room.tickets.begin(account, channel)
    told = len(room.events)
    room.tickets.use_elsewhere(ticket.ticket_id, tries, is_delivered=is_delivered)
    assert (len(channel.cuts), len(session.ends), len(room.events)) == (1, 1, told)
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.USED_UP
    room.tickets.use_elsewhere("unknown", 0, is_delivered=True)


def test_a_transfer_that_was_granted_here_may_not_begin_after_a_delivery_elsewhere() -> None:
    """Its data connection came too late: another process has delivered the image with the same ticket."""
    room = _Room()
    ticket = room.ticket(tries=3)
    account = room.account(ticket)
    room.tickets.use(account)
    assert not account.withdrawn(room.now_s)
    room.tickets.use_elsewhere(ticket.ticket_id, 1, yields=False, is_delivered=True)
    assert account.withdrawn(room.now_s)


def test_a_try_is_told_with_those_that_others_used() -> None:
    """Before anything else of it, so that the other processes hear of it first; what is left is what all have left."""
    room = _Room()
    ticket = room.ticket(tries=4)
    account, channel, session = room.account(ticket), _Channel(), _Session()
    account.sessions.add(session)
    told: list[object] = []
    room.tickets.on_try = told.append
    room.tickets.use(account)
    room.tickets.use_elsewhere(ticket.ticket_id, 2, yields=False)
    room.tickets.use(account)
    assert told == [TicketUse(ticket_id=ticket.ticket_id, here=here, elsewhere=2 * (here - 1)) for here in (1, 2)]
    assert [event.progress.tries_left for event in room.events if event.progress is not None][-1] == 0
    assert room.tickets.login(ticket.username, ticket.password, "192.0.2.1") is Refusal.USED_UP
    assert (channel.cuts, session.ends) == ([], [])


def test_a_site_s_cap_is_shared_with_other_processes() -> None:
    """At once when they begin or end, and what is done here is told each time it changes."""
    room, channel = _Room(), _Channel()
    loads: list[SiteLoad] = []
    room.tickets.on_site_load = loads.append
    room.tickets.set_site_cap("branch", Cap(bytes_per_s=9000, source="given"))
    account = room.account(room.ticket(site="branch"))
    room.tickets.set_elsewhere(SiteLoad(site="branch", transfers=2, moved_bytes=5))
    room.tickets.begin(account, channel)
    room.tickets.set_elsewhere(SiteLoad(site="branch", transfers=0, moved_bytes=0))
    assert channel.caps == [3000, 3000, 9000]
    member = room.tickets.site_member_of(account)
    member.note(70)
    room.tickets.report_loads()
    room.tickets.report_loads()
    room.tickets.end(account, channel)
    assert [(load.transfers, load.moved_bytes) for load in loads] == [(1, 0), (1, 70), (0, 70)]


def _shared(room: _Room) -> Account:
    ticket, grant = issue(TicketRequest(image_name="a.bin"), IMAGE)
    room.tickets.add(grant, is_shared=True)
    return room.account(ticket)


def test_a_ticket_of_one_process_sends_at_once() -> None:
    """It sends at once: only what another process serves, too, is decided on by the parent."""
    room, channel = _Room(), _Channel()
    account = room.account(room.ticket())
    room.tickets.use(account)
    room.tickets.await_turn(account, channel)
    assert channel.goes_on
    assert room.tickets.in_progress == 0


def test_a_shared_ticket_sends_when_its_last_try_was_decided_on() -> None:
    """What was decided on an older try lets nothing on; one that waits is a transfer under way."""
    room, channel = _Room(), _Channel()
    account = _shared(room)
    room.tickets.use(account)
    room.tickets.use(account)
    room.tickets.await_turn(account, channel)
    room.tickets.decide_try(account.grant.ticket_id, 1, goes_on=True)
    assert (channel.goes_on, room.tickets.in_progress) == (False, 1)
    room.tickets.decide_try(account.grant.ticket_id, 2, goes_on=True)
    assert (channel.goes_on, room.tickets.in_progress) == (True, 0)


def test_a_try_that_is_refused_gives_way_if_it_is_the_last() -> None:
    """A newer session of the same process is not sent away for an older one's sake."""
    room, session = _Room(), _Session()
    account = _shared(room)
    account.sessions.add(session)
    room.tickets.use(account)
    room.tickets.use(account)
    room.tickets.decide_try(account.grant.ticket_id, 1, goes_on=False)
    assert session.ends == []
    room.tickets.decide_try(account.grant.ticket_id, 2, goes_on=False)
    assert len(session.ends) == 1


def test_others_hear_that_nothing_is_sent_after_the_end_of_what_was() -> None:
    """What gives way may come to its own end first; with nothing under way they hear it at once."""
    room, channel = _Room(), _Channel()
    account = _shared(room)
    heard: list[str] = []
    room.tickets.on_yielded = heard.append
    room.tickets.begin(account, channel)
    room.tickets.use_elsewhere(account.grant.ticket_id, 1)
    assert heard == []
    room.tickets.end(account, channel)
    room.tickets.ended(account)
    assert heard == [account.grant.ticket_id]
    room.tickets.use_elsewhere(account.grant.ticket_id, 2)
    assert heard == [account.grant.ticket_id] * 2


def test_a_newer_transfer_waits_for_the_end_of_the_older_one() -> None:
    """Within a process, too: one that has handed over its last byte may be delivered, and then nothing is sent."""
    room, older, newer = _Room(), _Channel(), _Channel()
    account = room.account(room.ticket())
    room.tickets.begin(account, older)
    room.tickets.await_turn(account, newer)
    assert not newer.goes_on
    room.tickets.end(account, older)
    room.tickets.change(account, EventKind.DONE, "", state=TransferState.DELIVERED)
    room.tickets.ended(account)
    assert (newer.goes_on, newer.cuts) == (False, ["ticket withdrawn"])


def test_the_last_notice_that_is_reported_says_so() -> None:
    """A process that has no more notices to give does not fall silent without a word."""
    room = _Room()
    for number in range(205):
        room.tickets.notice(f"notice {number}")
        room.tickets.notice("notice 0")
    texts = [event.text for event in room.events if event.kind is EventKind.NOTICE]
    assert len(texts) == 200
    assert texts[-1] == "notice 199; it was the last of 200 different notices, further ones are left out"


def test_what_an_earlier_try_delivered_is_none_of_the_next_one() -> None:
    """A try that was acknowledged whole and failed all the same does not count for one that sends nothing."""
    room = _Room()
    account = room.account(room.ticket(tries=2))
    room.tickets.use(account)
    room.tickets.change(account, EventKind.FAILED, "reset", state=TransferState.FAILED, bytes_acked=IMAGE.size_bytes)
    room.tickets.use(account)
    assert account.progress.bytes_acked == 0
    assert not delivered_whole(account.progress)
