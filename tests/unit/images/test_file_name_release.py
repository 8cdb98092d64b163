"""The release of an image by its name, as Cisco names files."""

import pytest

from flashferry.images.file_name import release_in, release_of_image


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("c8000v-universalk9.17.12.04a.SPA.bin", "17.12.4a"),
        ("isr4300-universalk9.16.12.04.SPA.bin", "16.12.4"),
        ("asr1000rpx86-universalk9.17.03.04a.SPA.bin", "17.3.4a"),
        ("cat9k_iosxe.17.09.05.SPA.bin", "17.9.5"),
        ("c1100-universalk9_ias.16.09.04.SPA.bin", "16.9.4"),
        ("cat9k_lite_iosxe.17.06.03a.SPA.bin", "17.6.3a"),
        ("c2900-universalk9-mz.SPA.157-3.M.bin", None),
        ("cat3k_caa-universalk9.SPA.03.06.06E.152-2.E6.bin", None),
        ("c8500x_COMPUTE_ASR1K.empty.BLD_LUX_DEV_LATEST_20241029_211620.SSA.pkg", None),
        ("image.bin", None),
    ],
)
def test_the_release_of_a_file(name: str, release: str | None) -> None:
    """Names of IOS-XE files tell it, with the letters; a digit that ends a word is no part of it."""
    found = release_of_image(name)
    assert (str(found) if found is not None else None) == release


@pytest.mark.parametrize("text", ["17.12.04a.01.79", "17.12.4a", "17.12.04a"])
def test_spellings_of_one_release(text: str) -> None:
    """A summary's, `show version`'s and a file's are the same."""
    assert release_in(text) == release_of_image("c8000v-universalk9.17.12.04a.SPA.bin")
