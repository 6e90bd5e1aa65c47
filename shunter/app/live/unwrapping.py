"""What a group of errors is about: task groups wrap even a single one."""

from shunter.errors import ShunterError

__all__ = ["the_one"]


def the_one(errors: BaseException) -> BaseException:
    """Return the first error of ours in a group, else its first; any other as it is."""
    while isinstance(errors, BaseExceptionGroup):
        ours = errors.subgroup(ShunterError)
        errors = (ours or errors).exceptions[0]
    return errors
