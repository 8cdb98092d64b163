"""Every captured device against one image of each platform: no wrong yes, no wrong no, few that cannot be told."""

from __future__ import annotations

from pathlib import Path

from flashferry.images.file_name import read_file_name
from flashferry.images.image_platform_match import FAMILIES, Fits, image_fit, platform_of
from templates.version import parse_version

DEVICES = Path(__file__).parents[2] / "captures" / "platforms" / "devices.txt"
GOLDEN = Path(__file__).with_name("guard_matrix.txt")
MOST_UNSURE = 0.10

BESIDES = (
    *("c800m-universalk9-mz.SPA.157-3.M.bin", "c7200p-adventerprisek9-mz.152-4.S.bin", "c1700-ipbase-mz.124-25.bin"),
    *("c2940-i6k2l2q4-mz.121-22.EA13.bin", "c3750-ipservicesk9-mz.122-55.SE12.bin", "c3640-js-mz.124-25.bin"),
    *("ie2000-universalk9-mz.152-4.EA8.bin", "me340x-metroipaccessk9-mz.122-60.EZ.bin", "s2t54-adventerprisek9-mz.bin"),
    *("asr920-universalk9_npe.16.12.04.SPA.bin", "asr903rsp1-universalk9_npe.03.16.00.S.bin"),
    *("s5200-universalk9.17.09.04.SPA.bin", "ie9k_iosxe.17.09.04.SPA.bin", "c3560-ipbasek9-mz.122-55.SE12.bin"),
)
"""Platforms that the table lacks."""


def images() -> list[str]:
    """Return one name for each platform's word of the table, and those besides, built as Cisco builds them."""
    named = []
    for word in (word for family in FAMILIES for word in family.images):
        rest = ".17.09.04.SPA.bin" if word.endswith("_iosxe") else "-universalk9.17.09.04.SPA.bin"
        named.append(f"{word}{'.10.2.3.F.bin' if word == 'nxos' else rest}")
    return [*named, *BESIDES]


def devices() -> list[tuple[str, str, frozenset[str], str]]:
    """Return source, model, the words that it takes, and its lines, of each device of the file."""
    found = []
    for block in DEVICES.read_text(encoding="utf-8").split("\n=== ")[1:]:
        heading, _, lines = block.partition("\n")
        source, _, takes = heading.partition(" | takes: ")
        found.append((source, parse_version(lines).hardware[0], frozenset(takes.split()), lines))
    return found


def answers() -> dict[tuple[str, str], Fits]:
    """Return what the guard says of each device and each image."""
    said = {}
    for source, _, _, lines in devices():
        version = parse_version(lines)
        platform = platform_of(lines, version.hardware, version.image_path)
        for image in images():
            said[source, image] = image_fit(image, None, platform).fits
    return said


def word_of(image: str) -> str:
    return read_file_name(image).platform or image.partition(".")[0]


def matrix() -> str:
    """Return all answers for a reader: a row for each device, a letter for each image."""
    said, letters = answers(), {Fits.YES: "Y", Fits.NO: ".", Fits.UNKNOWN: "?"}
    head = [
        "Which image fits which device: Y yes, . no, ? cannot be told; a row for each device, a letter for each image.",
        "",
        *(f"{number:2} {name}" for number, name in enumerate(images(), start=1)),
        "",
        f"{'':22}{''.join(str(number // 10 or ' ') for number in range(1, len(images()) + 1))}",
        f"{'':22}{''.join(str(number % 10) for number in range(1, len(images()) + 1))}",
    ]
    rows = [
        f"{model:22}{''.join(letters[said[source, image]] for image in images())}  {source}"
        for source, model, _, _ in devices()
    ]
    return "\n".join([*head, *rows, ""])


def test_the_matrix_is_the_one_that_was_read() -> None:
    """A letter that changes is read: write the file anew by `GOLDEN.write_text(matrix())`, and read the difference."""
    assert matrix() == GOLDEN.read_text(encoding="utf-8")


def test_there_are_sixty_images_of_as_many_platforms() -> None:
    """One for each platform, each named as Cisco names it."""
    assert len({word_of(image) for image in images()}) == len(images()) >= 60


def test_there_is_no_wrong_yes_and_no_wrong_no() -> None:
    """A device that would not boot it is never a yes; one that would is never refused."""
    for source, model, takes, _ in devices():
        for image in images():
            found = answers_of(source)[image]
            is_right = word_of(image) in takes
            assert found is not Fits.YES or is_right, f"{image} fits {model} ({source})"
            assert found is not Fits.NO or not is_right, f"{image} is refused for {model} ({source})"


def test_few_cannot_be_told() -> None:
    """At most one in ten of all, and no device for an image of another kind of box."""
    said = answers()
    unsure = [pair for pair, found in said.items() if found is Fits.UNKNOWN]
    assert len(unsure) <= MOST_UNSURE * len(said)
    virtual = next(image for image in images() if image.startswith("c8000v-"))
    assert [source for source, image in unsure if image == virtual] == []


_ANSWERS: dict[str, dict[str, Fits]] = {}


def answers_of(source: str) -> dict[str, Fits]:
    """Return the answers about one device; all are worked out once."""
    if not _ANSWERS:
        for (device, image), found in answers().items():
            _ANSWERS.setdefault(device, {})[image] = found
    return _ANSWERS[source]
