"""The columns of a canonical trace, the fields they fill, and the page that lists them."""

import re
from dataclasses import fields
from pathlib import Path

from shunter.client import fields_of_request
from shunter.events import JobSpec
from shunter.workloads.formats import COLUMNS, SPEC_COLUMNS, find_format, format_names

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "traces.md"


def test_every_field_of_a_specification_has_its_column() -> None:
    assert [column.field for column in SPEC_COLUMNS] == [field.name for field in fields(JobSpec)]


def test_what_a_request_says_of_a_job_is_a_column() -> None:
    columns = {re.sub(r"_(milli|us)$", "", column.field) for column in SPEC_COLUMNS}
    not_recorded = {"environment", "secrets", "dry_run"}
    said = {name.removesuffix("_s") for name in fields_of_request()}
    assert said - columns == not_recorded


def test_every_column_is_documented_once() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("<!-- columns -->")[2].partition("\n#")[0]
    documented = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(documented) == sorted(COLUMNS)


def test_every_format_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in format_names() if f"`{name}`" not in page] == []


def test_every_format_bears_its_name() -> None:
    assert [find_format(name).name for name in format_names()] == list(format_names())
