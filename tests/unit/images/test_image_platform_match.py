"""Whether an image is for a device: by names as they are on real devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.images.image_platform_match import (
    FAMILIES,
    Fits,
    Platform,
    family_of_image,
    family_of_model,
    image_fit,
    platform_of,
)

VERSIONS = Path(__file__).parents[2] / "captures" / "show_version"
ISR4300 = "isr4300-universalk9.16.09.08.SPA.bin"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("c2900-universalk9-mz.SPA.157-3.M.bin", "2900"),
        (ISR4300, "ISR 4300"),
        ("isr4400v2-universalk9.17.06.03a.SPA.bin", "ISR 4461"),
        ("isr4200-universalk9_ias.16.09.04.SPA.bin", "ISR 4200"),
        ("cat9k_iosxe.17.09.04.SPA.bin", "Catalyst 9300 to 9600"),
        ("cat9k_lite_iosxe.16.09.05.SPA.bin", "Catalyst 9200L"),
        ("cat3k_caa-universalk9.16.12.07.SPA.bin", "Catalyst 3650 and 3850"),
        ("csr1000v-universalk9.16.12.05.SPA.bin", "CSR 1000V"),
        ("c8000v-universalk9.17.06.01a.SPA.bin", "Catalyst 8000V"),
        ("c8000be-universalk9.17.09.01a.SPA.bin", "Catalyst 8200 and 8300"),
        ("c800-universalk9-mz.SPA.155-3.M8.bin", "800"),
        ("asr1000rpx86-universalk9.17.06.05.SPA.bin", "ASR 1000"),
        ("asr1001x-universalk9.16.09.08.SPA.bin", "ASR 1000"),
        ("vios-adventerprisek9-m", "IOSv"),
        ("vios_l2-adventerprisek9-m", "IOSv"),
        ("C9800-CL-universalk9.17.07.01prd16.SPA.bin", "C9800-CL"),
        ("c2960x-universalk9-mz.152-2.E7.bin", "Catalyst 2960-X"),
        ("C2800NM-ADVENTERPRISEK9-M", "2800"),
    ],
)
def test_a_name_as_cisco_gives_it_tells_its_family(name: str, family: str) -> None:
    """Each image name of the list is known as what it is, neither as a longer name's family nor as a shorter one's."""
    found = family_of_image(name)
    assert found is not None
    assert found.name == family


@pytest.mark.parametrize("name", ["image.bin", "demo-xe1.bin", "packages.conf", "ecr.bin", "c29001-x.bin", "isr43", ""])
def test_a_name_that_tells_nothing_is_of_no_family(name: str) -> None:
    """No family is guessed from a part of a name."""
    assert family_of_image(name) is None


def test_every_row_of_the_table_finds_itself_and_names_its_source() -> None:
    """No prefix and no model is another row's, and none is there without a word on where it is from."""
    for family in FAMILIES:
        assert family.source
        for prefix in family.images:
            assert family_of_image(f"{prefix}-universalk9.17.bin") is family
        for pattern in family.models:
            assert family_of_model(pattern.replace("*", "1")) is family
            assert sum(pattern in other.models for other in FAMILIES) == 1


@pytest.mark.parametrize(
    ("capture", "model", "running", "family"),
    [
        ("2811", "2811", "c2800nm-adventerprisek9_ivs-mz.151-3.T4.bin", "2800"),
        ("c3850_stack", "WS-C3850-24P", None, "Catalyst 3650 and 3850"),
        ("c8000v", "C8000V", "packages.conf", "Catalyst 8000V"),
        ("c9500_install_mode", "C9500-40X", "packages.conf", "Catalyst 9300 to 9600"),
        ("csr1000v", "CSR1000V", "packages.conf", "CSR 1000V"),
    ],
)
def test_a_device_is_known_by_its_show_version(capture: str, model: str, running: str | None, family: str) -> None:
    """Also where it runs from packages, so that no file names it; model and software agree."""
    found = platform_of((VERSIONS / f"{capture}.txt").read_text(), (model,), running)
    assert found.family is not None
    assert found.family.name == family


def test_the_software_line_alone_tells_a_switch_in_install_mode() -> None:
    """A model that the table lacks is known by the platform in brackets."""
    line = "Cisco IOS Software [Gibraltar], Catalyst L3 Switch Software (CAT9K_LITE_IOSXE), Version 16.12.4, RELEASE"
    found = platform_of(line, ("C9200-48P",), "flash/packages.conf")
    assert found.software == "CAT9K_LITE_IOSXE"
    assert image_fit("cat9k_iosxe.17.09.04.SPA.bin", None, found).fits is Fits.NO
    assert image_fit("cat9k_lite_iosxe.17.09.04.SPA.bin", None, found).fits is Fits.YES


def test_an_image_of_another_platform_is_told_with_both_names() -> None:
    """The image's family, the model, its family and what it runs stand in the sentence."""
    found = image_fit(ISR4300, None, Platform(models=("2811",), running="c2800nm-ipbase-mz.151-3.T4.bin"))
    assert found.fits is Fits.NO
    assert found.reason == (
        f"{ISR4300} is for the family ISR 4300 (by its name), this is a 2811 (2800), which runs "
        "c2800nm-ipbase-mz.151-3.T4.bin"
    )
    assert (found.image_family, found.device_family) == ("ISR 4300", "2800")


@pytest.mark.parametrize(
    ("name", "platform", "fits"),
    [
        (ISR4300, Platform(models=("ISR4331/K9",), running="packages.conf"), Fits.YES),
        (ISR4300, Platform(models=("ISR4451-X/K9",), running="packages.conf"), Fits.NO),
        ("image.bin", Platform(models=("ISR4331/K9",)), Fits.UNKNOWN),
        (ISR4300, Platform(models=("XYZ-1",), running="packages.conf"), Fits.UNKNOWN),
        # The table knows neither: named like what runs, or not.
        ("c7200p-ipbasek9-mz.124-4.bin", Platform(models=("7206VXR",), running="c7200p-js-mz.122.bin"), Fits.YES),
        ("c7200-ipbasek9-mz.124-4.bin", Platform(models=("7206VXR",), running="c7200p-js-mz.122.bin"), Fits.NO),
        # Two platform words that differ are a no, whichever of both the table has.
        ("c800m-universalk9-mz.SPA.157-3.M.bin", Platform(models=("CISCO2901/K9",)), Fits.NO),
        ("c2900-universalk9-mz.bin", Platform(models=("WS-C9",), software="C2960-LANBASEK9-M"), Fits.NO),
        *(
            (f"C9800-{word}.17.09.04.SPA.bin", Platform(models=("C9800-CL-K9",)), Fits.NO)
            for word in (
                "L-universalk9_wlc",
                "40-universalk9_wlc",
                "80-universalk9_wlc",
                "SW-iosxe-wlc",
                "AP-universalk9",
            )
        ),
        ("C9800-CL-universalk9.17.09.04.SPA.bin", Platform(models=("C9800-CL-K9",)), Fits.YES),
        ("asr1000rpx86-universalk9.17.bin", Platform(models=("ASR1006",), running="asr1000rp2-u.16.bin"), Fits.YES),
        # Images of this family differ by model: only what runs tells which.
        ("asr1001x-universalk9.17.bin", Platform(models=("ASR1001-X",), running="asr1001x-u.16.bin"), Fits.YES),
        ("asr1000rp2-universalk9.17.bin", Platform(models=("ASR1001-X",), running="asr1001x-u.16.bin"), Fits.NO),
        ("asr1000rp2-universalk9.17.bin", Platform(models=("ASR1006",), running="test.bin"), Fits.UNKNOWN),
        (ISR4300, Platform(models=("ASR1001-X",), running="asr1001x-u.16.bin"), Fits.NO),
        # Cisco's own way from one to the other, and not back.
        ("c8000v-universalk9.17.06.01a.SPA.bin", Platform(models=("CSR1000V",)), Fits.YES),
        ("csr1000v-universalk9.16.12.05.SPA.bin", Platform(models=("C8000V",)), Fits.NO),
        # What a device says of itself disagrees: nothing is concluded.
        (ISR4300, Platform(models=("2811",), running="isr4400-universalk9.16.bin"), Fits.UNKNOWN),
    ],
)
def test_three_answers(name: str, platform: Platform, fits: Fits) -> None:
    """Yes and no only where both are known; else it cannot be told."""
    assert image_fit(name, None, platform).fits is fits


def test_what_the_file_carries_goes_before_what_it_is_called() -> None:
    """A renamed image is known by its inside, whether its new name says nothing or something else."""
    router = Platform(models=("ISR4331/K9",))
    inside = "cat9k_iosxe.16.05.01a.SPA.bin"
    for name in ("image.bin", ISR4300):
        found = image_fit(name, inside, router)
        assert (found.fits, found.image_family) == (Fits.NO, "Catalyst 9300 to 9600")
        assert f"by the name inside the file, {inside}" in found.reason
    assert image_fit("image.bin", "C2800NM-ADVENTERPRISEK9-M", Platform(models=("2811",))).fits is Fits.YES


def test_the_documented_table_is_that_of_the_code() -> None:
    """A family more or less, or another model, stands in docs/images.md too."""
    document = Path(__file__).parents[3] / "docs" / "images.md"
    if not document.exists():
        pytest.skip("the documents are not part of the wheel's test copy")
    rows = [line for line in document.read_text().splitlines() if line.endswith("|") and "`" in line]
    table = rows[-len(FAMILIES) :]
    for row, family in zip(table, FAMILIES, strict=True):
        images = ", ".join(f"`{image}`" for image in family.images) + ("" if family.is_one_image else " *")
        models = ", ".join(f"`{model}`" for model in family.models) or "-"
        assert row == f"| {family.name} | {images} | {models} |"
