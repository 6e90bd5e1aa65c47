"""What all tables of a config have in common."""

from collections.abc import Iterator

import pytest

from shunter.config import NO_WORKLOAD, Config, Section


def _left_out(section: type[Section]) -> Iterator[Section]:
    """Yield what stands for the tables of a section that are left out, and for those in them."""
    for field in section.model_fields.values():
        if isinstance(field.default, Section) and field.default is not NO_WORKLOAD:
            yield field.default
            yield from _left_out(type(field.default))


LEFT_OUT = list(_left_out(Config))


@pytest.mark.parametrize("table", LEFT_OUT, ids=lambda table: type(table).__name__)
def test_a_table_that_is_left_out_is_one_in_which_every_key_is(table: Section) -> None:
    assert table == type(table).model_validate_json("{}")
