"""Where `shunter serve` will get its Slurm backend from; so far it gets told that there is none."""

from shunter.app.config.live import BackendSection
from shunter.errors import ConfigError

__all__ = ["check_served"]


def check_served(section: BackendSection) -> None:
    """Return if this version can run jobs where a config says.

    Raises:
        ConfigError: it says Slurm, of which this version has no backend.
    """
    if section.kind == "slurm":
        raise ConfigError(
            "backend.kind = 'slurm': this version writes and checks such a config (init, doctor), "
            "and has no Slurm backend to run it yet; expected 'local' or 'ssh'"
        )
