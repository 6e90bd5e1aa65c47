"""What every section of a config file is: frozen, strict, and closed to unknown keys."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from shunter.policies import Duration


class Section(BaseModel):
    """A table of a config file."""

    # What checks a table is built when one is checked, and those inside it with it: only once.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def usual(cls) -> Self:
        """Return the table in which every key is left out.

        What checks a table is not built for it.
        """
        return cls.model_construct()


Count = Annotated[int, Field(ge=0, lt=2**31)]
"""A number of things, 0 or more."""

Positive = Annotated[int, Field(ge=1, lt=2**31)]
"""A number of things, 1 or more."""

Share = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A weight or a speed relative to 1: a finite number above 0."""

Span = Annotated[Duration, Field(ge=0)]
"""A duration of 0 or more."""

Stretch = Annotated[Duration, Field(gt=0)]
"""A duration above 0."""
