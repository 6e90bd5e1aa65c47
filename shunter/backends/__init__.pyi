"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .turn_timetables import timetables as timetables
