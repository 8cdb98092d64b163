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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

    Returns:
        Whether it worked; many systems forbid it, such as Ubuntu 24.04 by AppArmor. True for root, who needs none.
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

    Raises:
        LabError: The process is gone, or this process has threads, which the kernel does not allow (setns(2)).
        PermissionError: It is another user's.
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

    Raises:
        LabError: There is no such process.
        OSError: The kernel refused.
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
