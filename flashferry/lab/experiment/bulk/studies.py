"""The published studies of bulk copies: what they printed, and the series of copies that stand for them here.

Figures are as printed. scp's own meter counts 1,048,576 B to a MB and `dd` 1,000,000; the studies of scp do not say
what they read. So figures of one study are compared with each other, never with those of another.

| name here | study | date |
|---|---|---|
| `ciphers` | scp by cipher between two cloud hosts, OpenSSH 8.0p1, OpenSSL 1.1.1c, tmpfs, 8.42 Gbit/s | 2019 |
| `boards` | scp from a small ARM board to an x86 host, OpenSSH 7.9p1 and 8.2p1 | 2023-01-19 |
| `macs`, `compression` | scp: ciphers, compression and MACs, 1 Gbit/s, 17 ms, Intel E5-2430 | 2021-05-18 |
| `blocks`, `pipes`, `dd-ciphers` | a disk copied by dd through ssh and nc, 25 GbE, Ubuntu 22.04.1 | 2022 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flashferry.depot.probing.methods import Method

MIB = 1 << 20
GCM128, GCM256 = "aes128-gcm@openssh.com", "aes256-gcm@openssh.com"
CHACHA = "chacha20-poly1305@openssh.com"
"""First in OpenSSH's default order, so what "default" means in these studies."""
CTR = ("aes128-ctr", "aes192-ctr", "aes256-ctr")
CBC = ("aes128-cbc", "aes192-cbc", "aes256-cbc")
TRIPLE = "3des-cbc"
MODERN = (GCM128, GCM256, CHACHA, *CTR, *CBC)
MACS = (
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha1",
    "hmac-sha1-96",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-md5",
    "hmac-md5-96",
)
BLOCKS = (512, 4096, 32_768, 65_536, 524_288, 4_194_304)
MASKED = "boards"

PUBLISHED_CIPHERS: Mapping[str, float] = MappingProxyType(
    {
        TRIPLE: 20.7, "aes128-cbc": 304.8, "aes192-cbc": 271.3, "aes256-cbc": 243.6, "aes128-ctr": 353.3,
        "aes192-ctr": 381.4, "aes256-ctr": 355.4, GCM128: 503.4, GCM256: 421.7, CHACHA: 153.2,
    }
)  # fmt: skip
"""MB/s, medians of three; `rijndael-cbc@lysator.liu.se`, 249.9, is no cipher any more."""
PUBLISHED_BLOCKS: Mapping[int, float] = MappingProxyType(
    {512: 118, 4096: 363, 32_768: 371, 65_536: 385, 524_288: 324, 4_194_304: 330}
)
"""MB/s of `dd`, 10^6 B; one run each, as all of that study."""
PUBLISHED_DD_CIPHERS: Mapping[str, float] = MappingProxyType(
    {"aes128-ctr": 538, "aes192-ctr": 610, "aes256-ctr": 609, GCM128: 632, GCM256: 642, CHACHA: 402}
)
PUBLISHED_PIPES: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        ("dd", ""): 385, ("nc", ""): 160, ("dd", "gzip"): 24.3, ("nc", "gzip"): 27.9, ("dd", "lzop"): 160,
        ("nc", "lzop"): 277, ("dd", "pigz"): 163, ("nc", "pigz"): 397,
    }
)  # fmt: skip
"""By transport and compressing program; those of gzip were stopped by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Copies that are compared with each other, all in the same rounds.

    `study`: The study that it stands for, by the name of its data. `sizes`: How much by methods that are so slow that
    less will do. `is_masked`: Whether both ends do without AES instructions.
    """

    name: str
    study: str
    methods: tuple[Method, ...]
    size_bytes: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    is_masked: bool = False

    def size_of(self, method: Method) -> int:
        """Return how much is copied by a method."""
        return 0 if method.data == "nothing" else self.sizes.get(method.key, self.size_bytes)


def _scp(cipher: str, **more: object) -> Method:
    return Method(name="scp -O", cipher=cipher, **more)  # type: ignore[arg-type] # fields of it


def _ciphers(size_mib: int) -> Series:
    slow = _scp(TRIPLE)
    return Series(
        name="ciphers",
        study="scp-ciphers-2019",
        methods=(*(_scp(cipher) for cipher in MODERN), slow),
        size_bytes=size_mib * MIB,
        sizes={slow.key: max(size_mib // 8, 1) * MIB},
    )


def _boards(size_mib: int) -> Series:
    return Series(
        name=MASKED,
        study="scp-arm-2023",
        methods=tuple(_scp(cipher) for cipher in MODERN),
        size_bytes=max(size_mib // 2, 1) * MIB,
        is_masked=True,
    )


def _macs(size_mib: int) -> Series:
    methods = tuple(_scp("aes128-ctr", mac=mac) for mac in MACS)
    return Series(name="macs", study="scp-mac-compression", methods=methods, size_bytes=size_mib * MIB)


COMPRESSED_CIPHERS = (GCM128, "aes128-ctr", "aes128-cbc", CHACHA)


def _compression(size_mib: int) -> Series:
    methods = [
        _scp(cipher, compress=compress, data=data)
        for cipher in COMPRESSED_CIPHERS
        for compress in (False, True)
        for data in ("random", "holes")
    ]
    methods += [Method(name="dd", cipher="aes128-ctr", squeeze="pigz", data=data) for data in ("random", "holes")]
    size = max(size_mib // 4, 1) * MIB
    return Series(name="compression", study="scp-mac-compression", methods=tuple(methods), size_bytes=size)


def _blocks(size_mib: int) -> Series:
    methods = tuple(Method(name="dd", cipher=CHACHA, block_bytes=block) for block in BLOCKS)
    return Series(name="blocks", study="dd-ssh-2022", methods=methods, size_bytes=size_mib * MIB)


def _pipes(size_mib: int) -> Series:
    methods = tuple(
        Method(name=name, cipher=CHACHA if name == "dd" else "", squeeze=squeeze) for name, squeeze in PUBLISHED_PIPES
    )
    size = max(size_mib // 2, 1) * MIB
    slow = {one.key: max(size_mib // 4, 1) * MIB for one in methods if one.squeeze == "gzip"}
    return Series(name="pipes", study="dd-ssh-2022", methods=methods, size_bytes=size, sizes=slow)


def _dd_ciphers(size_mib: int) -> Series:
    methods = tuple(Method(name="dd", cipher=cipher) for cipher in PUBLISHED_DD_CIPHERS)
    return Series(name="dd-ciphers", study="dd-ssh-2022", methods=methods, size_bytes=size_mib * MIB)


def series_of(experiment: str, size_mib: int) -> tuple[Series, ...]:
    """Return the series of an experiment, `ssh` or `bulk`, whose files have so many MiB, slow methods' less."""
    makers = {"ssh": (_ciphers, _macs, _compression, _boards), "bulk": (_blocks, _pipes, _dd_ciphers)}[experiment]
    return tuple(make(size_mib) for make in makers)
