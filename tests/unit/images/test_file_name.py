"""What a name says of a file: its kind, its platform's word and its feature set, as Cisco names files."""

import pytest

from flashferry.images.file_name import FileKind, read_file_name

NAMES = [
    ("cat9k_iosxe.17.06.01.SPA.bin", FileKind.IMAGE, "cat9k_iosxe", ""),
    ("cat9k_lite_iosxe.17.06.01.SPA.bin", FileKind.IMAGE, "cat9k_lite_iosxe", ""),
    ("cat9k_iosxe_npe.17.06.01.SPA.bin", FileKind.IMAGE, "cat9k_iosxe", "npe"),
    ("cat9k_iosxeldpe.17.06.01.SPA.bin", FileKind.IMAGE, "cat9k_iosxe", "ldpe"),
    ("isr4300-universalk9_npe.16.09.01.SPA.bin", FileKind.IMAGE, "isr4300", "npe"),
    ("c1100-universalk9_ias_npe.16.09.04.SPA.bin", FileKind.IMAGE, "c1100", "npe"),
    ("c2900-universalk9-mz.SPA.157-3.M.bin", FileKind.IMAGE, "c2900", ""),
    ("c2500-j-l.112-5.P", FileKind.IMAGE, "c2500", ""),
    ("C9800-CL-universalk9.17.07.01prd16.SPA.bin", FileKind.IMAGE, "c9800-cl", ""),
    ("C9800-L-universalk9_wlc.17.03.03.SPA.bin", FileKind.IMAGE, "c9800-l", ""),
    ("C9800-40-universalk9_wlc.17.03.03.SPA.bin", FileKind.IMAGE, "c9800-40", ""),
    ("C9800-AP-universalk9.17.09.01.zip", FileKind.ARCHIVE, "c9800-ap", ""),
    ("c2960x-universalk9-mz.152-2.E7.tar", FileKind.ARCHIVE, "c2960x", ""),
    ("C9800-SW-iosxe-wlc.16.11.01.SPA.bin", FileKind.SUB_PACKAGE, "c9800-sw", ""),
    ("cat9k-rpboot.17.06.01.SPA.pkg", FileKind.SUB_PACKAGE, "cat9k", ""),
    ("csr1000v-mono-universalk9.16.11.01a.SPA.pkg", FileKind.SUB_PACKAGE, "csr1000v", ""),
    ("cat9k_iosxe.17.06.01.CSCvz00001.SPA.smu.bin", FileKind.SMU, "cat9k_iosxe", ""),
    ("isr4300-universalk9.16.06.01.CSCvx12345.SPA.bin", FileKind.SMU, "isr4300", ""),
    ("cat9k_iosxe.17.06.01.SPA.smu.bin", FileKind.SMU, "cat9k_iosxe", ""),
    ("C9800-CL-universalk9.17.03.01.CSCvx00001.SPA.apsp.bin", FileKind.APSP, "c9800-cl", ""),
    ("C9800-universalk9_wlc.17.03.01.SPA.apdp.bin", FileKind.APDP, "c9800", ""),
    ("cat9k_iosxe.17.09.05.SPA.conf", FileKind.PACKAGE_LIST, "cat9k_iosxe", ""),
    ("isr4200_4300_rommon_1612_2r_SPA.pkg", FileKind.ROMMON, None, ""),
    ("asr1000-rommon.173-1r.SPA.pkg", FileKind.ROMMON, "asr1000", ""),
    ("C1900_RM2.srec.SPA.150-1r.M15", FileKind.ROMMON, None, ""),
    ("C2900-UNIVERSALK9-M", FileKind.IMAGE, "c2900", ""),
    ("CAT9K_IOSXE", FileKind.IMAGE, "cat9k_iosxe", ""),
    ("X86_64_LINUX_IOSD-UNIVERSALK9-M", FileKind.IMAGE, None, ""),
    ("vios_l2-adventerprisek9-m", FileKind.IMAGE, "vios_l2", ""),
    ("image.bin", FileKind.IMAGE, None, ""),
    ("demo-xe1.bin", FileKind.IMAGE, None, ""),
    ("flash:/images/cat9k_iosxe.17.06.01.SPA.bin", FileKind.IMAGE, "cat9k_iosxe", ""),
]


@pytest.mark.parametrize(("name", "kind", "platform", "encryption"), NAMES, ids=[row[0] for row in NAMES])
def test_a_name_says_kind_platform_and_feature_set(name: str, kind: FileKind, platform: str, encryption: str) -> None:
    """Each is read from one name, in either case of letters."""
    for spelled in (name, name.lower(), name.upper()):
        found = read_file_name(spelled)
        assert (found.kind, found.platform, found.encryption) == (kind, platform, encryption)
