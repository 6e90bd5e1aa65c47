"""Options of a command as a table: a dataclass whose fields are what Typer would take.

Typer reads a command's options from the signature of its function; this one is made from the table,
for a function with twenty-five parameters would be no easier to read.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Any, TypeVar, get_type_hints

__all__ = ["takes_options"]

Table = TypeVar("Table")


def takes_options(table: type[Table], command: Callable[[Table], None]) -> Callable[..., None]:
    """Return a function with every option as a parameter, for Typer to read."""
    hints = get_type_hints(table, include_extras=True)

    def run(**said: Any) -> None:
        command(table(**said))

    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(table)  # type: ignore[arg-type]  # tables are dataclasses
    ]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # inspect looks there
    run.__annotations__ = {name: hints[name] for name in hints}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run
