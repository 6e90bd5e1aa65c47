"""What a run of Shunter installs: nothing under the GPL (the LGPL, which links freely, is none)."""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

RUN = Path(__file__).resolve().parents[2] / "requirements" / "run.txt"
GPL = re.compile(r"(?<![L])GPL|(?<!Lesser )General Public License", re.IGNORECASE)


def licences(name: str) -> str:
    """Return all that a package says of its licence; nothing where it is not for this machine."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return ""
    said = [*found.get_all("License-Expression", []), *found.get_all("License", [])]
    classified = [line for line in found.get_all("Classifier", []) if "License" in line]
    return " | ".join([*(text.split("\n")[0] for text in said), *classified])


def test_nothing_that_a_run_installs_is_under_the_gpl() -> None:
    names = re.findall(r"^([A-Za-z0-9][\w.-]*)==", RUN.read_text(), re.MULTILINE)
    told = {name: licences(name) for name in names}

    assert sum(bool(text) for text in told.values()) > len(names) * 0.8, "most say their licence"
    assert [name for name, text in told.items() if GPL.search(text)] == []


def test_gpl_is_told_from_lgpl() -> None:
    assert GPL.search("GPLv3")
    assert GPL.search("License :: OSI Approved :: GNU General Public License v3 (GPLv3)")
    assert not GPL.search("LGPL-2.1-or-later")
    assert not GPL.search("GNU Lesser General Public License v2 or later (LGPLv2+)")
