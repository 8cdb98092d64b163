"""Anonymous network namespaces: made, entered and set up without names and without the `ip` program.

A namespace made by unshare(2) lives as long as a process or an open descriptor is in it and leaves no
file behind (network_namespaces(7)), so nothing has to be cleaned after `kill -9`.

A network namespace belongs to a *thread*: a new thread inherits that of the thread which started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.lab.errors import LabError

CLONE_NEWNET = 0x40000000
"""linux/sched.h"""

_CLONE_NEWUSER = 0x10000000
_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x0001 | 0x1000
_TUN_PATH = Path("/dev/net/tun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Whether the lab can be built here, and the reason in a sentence if not."""

    may_run: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What an interface of a namespace is given.

    ``addresses`` and ``routes`` are in prefix notation; a route leads out of this interface.
    """

    name: str
    addresses: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    mtu_bytes: int = 1500
    txqueuelen: int = 1000


def probe() -> Probe:
    """Say whether this process may make namespaces and TUN interfaces; nothing stays behind."""
    if os.geteuid() != 0:
        return _needs_root()
    if not _TUN_PATH.exists():
        return Probe(may_run=False, reason=f"{_TUN_PATH} is missing; load the tun module (modprobe tun).")
    return _tried(lambda: os.close(open_tun("probe0")), "a TUN interface")


def probe_namespaces() -> Probe:
    """Say whether this process may make namespaces and join them, without TUN; nothing stays behind."""
    if os.geteuid() != 0:
        return _needs_root()
    return _tried(lambda: join_by_veth("probe0", "probe1", threading.get_native_id()), "a veth interface")


def _needs_root() -> Probe:
    return Probe(may_run=False, reason="The lab needs root to make network namespaces; run it as root.")


def _tried(attempt: Callable[[], None], what: str) -> Probe:
    """Make a namespace in a thread of its own, which takes it along when it ends, and try something in it."""
    refusals: list[str] = []

    def try_it() -> None:
        try:
            unshare_network()
        except OSError as error:
            needed = "CAP_SYS_ADMIN is needed; containers often drop it"
            refusals.append(f"The kernel refused a new network namespace ({error.strerror}); {needed}.")
            return
        try:
            attempt()
        except OSError as error:
            needed = f"the right to open {_TUN_PATH}" if error.errno == errno.EACCES else "CAP_NET_ADMIN"
            refusals.append(f"The kernel refused {what} ({error.strerror}); {needed} is needed.")

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return Probe(may_run=not refusals, reason=refusals[0] if refusals else f"A network namespace with {what} works.")


def become_root_in_user_namespace() -> bool:
    """Give an ordinary user a user namespace in which this process is root (user_namespaces(7)).

    For good, and for the whole process, which must not have started threads yet. Files keep their owner outside.
    Returns whether it worked; many systems forbid it, such as Ubuntu 24.04 by AppArmor. True for root, who needs none.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        return True
    if _libc().unshare(_CLONE_NEWUSER) != 0:
        return False
    own = Path("/proc/self")
    try:
        (own / "uid_map").write_text(f"0 {user} 1\n", encoding="ascii")
        (own / "setgroups").write_text("deny\n", encoding="ascii")
        (own / "gid_map").write_text(f"0 {group} 1\n", encoding="ascii")
    except OSError:
        return False
    return True


def enter_user_namespace(pid: int) -> None:
    """Move this process to the user namespace of ``pid`` where that is another one: a lab without root lives in one.

    Raises LabError: the process is gone, or this process has threads, which the kernel does not allow (setns(2));
    PermissionError: it is another user's.
    """
    theirs = Path(f"/proc/{pid}/ns/user")
    try:
        if theirs.samefile("/proc/self/ns/user"):
            return
        descriptor = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _gone(pid) from error
    try:
        _checked(_libc().setns(descriptor, _CLONE_NEWUSER), "setns")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise LabError(f"The lab of process {pid} is in a user namespace, which a program with threads cannot "
                       "enter; enter it first, by 'flashferry lab exec'.") from error  # fmt: skip
    finally:
        os.close(descriptor)


def unshare_network() -> None:
    """Move the calling thread to a network namespace of its own. Raises OSError: the kernel refused."""
    _checked(_libc().unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")


def enter_descriptor(descriptor: int) -> None:
    """Move the calling thread to the network namespace behind an open descriptor.

    Raises OSError: the kernel refused.
    """
    _checked(_libc().setns(descriptor, CLONE_NEWNET), "setns")


def open_namespace(pid: int | None = None) -> int:
    """Open the network namespace of a process, or of the calling thread; the caller closes it.

    Raises LabError: there is no such process.
    """
    path = "/proc/thread-self/ns/net" if pid is None else f"/proc/{pid}/ns/net"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _gone(pid) from error


@contextlib.contextmanager
def in_namespace(pid: int) -> Iterator[None]:
    """Put the calling thread into the namespace of ``pid`` for the length of a with block."""
    home = open_namespace()
    try:
        enter_namespace(pid)
        try:
            yield
        finally:
            if not _is_here(home):
                enter_descriptor(home)
    finally:
        os.close(home)


def enter_namespace(pid: int) -> None:
    """Move the calling thread to the network namespace of ``pid``; where it is there already, no right is needed.

    Raises LabError: there is no such process; OSError: the kernel refused.
    """
    target = open_namespace(pid)
    try:
        if not _is_here(target):
            enter_descriptor(target)
    finally:
        os.close(target)


def _is_here(descriptor: int) -> bool:
    return os.path.samestat(os.fstat(descriptor), Path("/proc/thread-self/ns/net").stat())


def set_sysctl(name: str, value: str | int) -> None:
    """Write ``net/...`` in the calling thread's namespace (/proc/sys/net shows the caller's own)."""
    Path("/proc/sys", name).write_text(f"{value}\n", encoding="ascii")


def open_tun(name: str) -> int:
    """Make a TUN interface in the calling thread's namespace and return its non-blocking descriptor.

    No packet information header and no IFF_VNET_HDR: one read is one packet of at most the MTU, so
    that loss hits packets, not offload bundles (linux/if_tun.h).
    """
    descriptor = os.open(_TUN_PATH, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode("ascii"), _IFF_TUN_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What went over an interface since it was made; a veth pair counts Ethernet's 14 bytes per packet, too."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


def traffic(pid: int) -> dict[str, Traffic]:
    """Return what went over each interface of a process's namespace (/proc/PID/net/dev, proc(5)).

    Raises LabError: there is no such process.
    """
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    except OSError as error:
        raise _gone(pid) from error
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        found[name.strip()] = Traffic(
            received_bytes=int(words[0]), received_packets=int(words[1]),
            sent_bytes=int(words[8]), sent_packets=int(words[9]),
        )  # fmt: skip
    return found


def join_by_veth(name: str, peer_name: str, peer_pid: int) -> None:
    """Join the calling thread's namespace with that of ``peer_pid`` by a pair of virtual Ethernet interfaces.

    Raises OSError: the kernel refused.
    """
    from pyroute2 import IPRoute, NetlinkError

    try:
        with IPRoute() as netlink:
            netlink.link("add", ifname=name, kind="veth", peer={"ifname": peer_name, "net_ns_pid": peer_pid})
    except NetlinkError as error:
        raise OSError(error.code, os.strerror(error.code)) from error


def set_up_interfaces(interfaces: Sequence[Interface]) -> None:
    """Bring up interfaces of the calling thread's namespace, with addresses and routes."""
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        for interface in interfaces:
            index = netlink.link_lookup(ifname=interface.name)[0]
            netlink.link("set", index=index, mtu=interface.mtu_bytes, txqlen=interface.txqueuelen)
            netlink.link("set", index=index, state="up")
            for address in interface.addresses:
                host, prefix = address.split("/")
                netlink.addr("add", index=index, address=host, prefixlen=int(prefix))
            for route in interface.routes:
                netlink.route("add", dst=route, oif=index)


def _gone(pid: int | None) -> LabError:
    return LabError(f"Process {pid} is gone, and its network namespace with it; start the lab anew.")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


WAN, LAN = "wan0", "lan0"
"""Names of the interfaces of a site and of its depot: towards the core, and towards each other."""

_QUEUE_PACKETS = 10000
"""Of the interfaces themselves: the queue that counts is that of the link model."""

_EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The TUN descriptors of a link's two ends; a depot at the site has one of its own, and an address."""

    core: int
    site: int
    depot: int | None = None
    depot_address: str = ""


def set_up_link(settings: dict[str, Any]) -> Ends | None:
    """Join the site, and its depot where it has one, with the core, and stay in the core.

    The first link of a world makes the core's namespace, the others enter it. `settings`: ``site_pid``,
    ``site_addresses``, ``site_network``, ``core_address``, ``core_pid`` (None to make the core), ``interface`` (its
    name in the core), ``has_tun`` (False: plain veth pairs), ``depot_pid`` and ``depot_address`` (None without a
    depot). Returns the ends between which packets have to be carried; None where the kernel carries them.
    """
    name, depot_pid = settings["interface"], settings.get("depot_pid")
    if settings["core_pid"] is None:
        unshare_network()
    else:
        enter_namespace(settings["core_pid"])
    ends = _join(name, settings) if settings["has_tun"] else None
    if ends is None:
        join_by_veth(name, WAN, settings["site_pid"])
    _set_up_in(settings["site_pid"], WAN, tuple(settings["site_addresses"]), _EVERYWHERE)
    # The sender's buffer must never be the limit: 16 MB hold twice the largest window of the experiments.
    _let_send()
    _set_up(name, (settings["core_address"],), settings["site_network"])
    if depot_pid is not None:
        if ends is None:
            # Its own way to the core, for a plain pair of interfaces has two ends only.
            join_by_veth(f"{name}d", WAN, depot_pid)
            _set_up(f"{name}d", (settings["core_address"],), f"{settings['depot_address']}/32")
        _set_up_in(depot_pid, WAN, (f"{settings['depot_address']}/32",), _EVERYWHERE)
    return ends


def set_up_lan(settings: dict[str, Any]) -> Ends | None:
    """Join the calling thread's namespace, a depot's, with its site by a LAN.

    The devices' addresses are those that they have on the WAN link: the site is one namespace, which answers for them
    on either interface. What the depot sends to the site's network takes the LAN, all else the WAN link. `settings`:
    ``site_pid``, ``site_network``, ``depot_address``, and ``profile`` (None: a plain veth pair). Returns the ends
    between which packets have to be carried, the depot as the core; None where the kernel carries them.
    """
    ends = None
    if settings["profile"] is not None:
        with in_namespace(settings["site_pid"]):
            site_tun = open_tun(LAN)
        ends = Ends(core=open_tun(LAN), site=site_tun)
    else:
        join_by_veth(LAN, LAN, settings["site_pid"])
    address = f"{settings['depot_address']}/32"
    _set_up_in(settings["site_pid"], LAN, (), address)
    _let_send()
    _set_up(LAN, (address,), settings["site_network"])
    return ends


def _join(name: str, settings: dict[str, Any]) -> Ends:
    """Open the TUN interfaces of a link."""
    depot_pid, depot_tun = settings.get("depot_pid"), None
    with in_namespace(settings["site_pid"]):
        site_tun = open_tun(WAN)
    if depot_pid is not None:
        with in_namespace(depot_pid):
            depot_tun = open_tun(WAN)
    return Ends(
        core=open_tun(name), site=site_tun, depot=depot_tun, depot_address=settings.get("depot_address") or ""
    )  # fmt: skip


def _let_send() -> None:
    set_sysctl("net/ipv4/tcp_wmem", "4096 65536 16777216")


def _set_up_in(pid: int, name: str, addresses: tuple[str, ...], route: str) -> None:
    with in_namespace(pid):
        _set_up(name, addresses, route)


def _set_up(name: str, addresses: tuple[str, ...], route: str) -> None:
    # Metrics of an earlier copy (ssthresh, RTT) must not colour the next one.
    set_sysctl("net/ipv4/tcp_no_metrics_save", 1)
    # A new namespace inherits the host's forwarding; none of them is a router.
    set_sysctl("net/ipv4/ip_forward", 0)
    with contextlib.suppress(OSError):
        set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        set_sysctl("net/ipv6/conf/all/disable_ipv6", 1)
    wan = Interface(name=name, addresses=addresses, routes=(route,), txqueuelen=_QUEUE_PACKETS)
    set_up_interfaces((Interface(name="lo"), wan))
