"""What the errors of a group of tasks are about."""

from shunter.errors import ShunterError


def first_error(errors: BaseException) -> BaseException:
    """Return the first error of ours in a group, else its first; any other as it is."""
    while isinstance(errors, BaseExceptionGroup):
        ours = errors.subgroup(ShunterError)
        errors = (ours or errors).exceptions[0]
    return errors
