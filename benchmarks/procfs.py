"""What the kernel says about processes: processor time, memory, descriptors. Read from /proc, see proc(5)."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state (field 3) on; the name before it may hold anything."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def descendants(pid: int) -> list[int]:
    """Return the processes that stem from a process, without itself."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, waiting = [], [pid]
    while waiting:
        nearest = children.get(waiting.pop(), [])
        found += nearest
        waiting += nearest
    return found


def cpu_s(pid: int) -> float:
    """Return user and system time of a process, of its ended children and of its living descendants, in seconds.

    The kernel counts in nanoseconds and shows ticks (10 ms), so a difference of two readings is right within 20 ms.
    """
    ticks = sum(int(field) for field in _stat(pid)[11:15])
    for child in descendants(pid):
        try:
            ticks += sum(int(field) for field in _stat(child)[11:15])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return ticks / _TICKS_PER_S


def busy_s(cpus: frozenset[int]) -> float:
    """Return how long processors have been busy with anything, protocol work in interrupts included (/proc/stat).

    Kernels that account interrupts apart charge a sender's protocol work on loopback to no process.
    """
    total_ticks = 0
    for line in (_PROC / "stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[:8])
            total_ticks += user + nice + system + irq + softirq + steal
    return total_ticks / _TICKS_PER_S


def pss_bytes(pid: int, *, anonymous: bool = False) -> int:
    """Return the proportional set size of a process: pages it shares count in parts.

    Args:
        pid: The process.
        anonymous: Leave out pages of files, whose parts change whenever another process maps the same library.
    """
    return _rollup(pid, "Pss_Anon:" if anonymous else "Pss:")


def rss_bytes(pid: int) -> int:
    """Return the resident set size of a process."""
    return _rollup(pid, "Rss:")


def peak_rss_bytes(pid: int) -> int:
    """Return the most that the resident set of a process has been (`VmHWM`, proc(5))."""
    line = next(one for one in (_PROC / str(pid) / "status").read_text().splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(list((_PROC / str(pid) / "fd").iterdir()))


def socket_descriptors(pid: int) -> int:
    """Return how many of them are sockets."""
    count = 0
    for entry in (_PROC / str(pid) / "fd").iterdir():
        try:
            count += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return count


def _rollup(pid: int, name: str) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
