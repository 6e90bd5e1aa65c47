"""One TOML file, strict, under overrides from the environment and the command line."""

from shunter.config.loading import LoadedConfig, load_config, make_config
from shunter.config.model import Config
from shunter.config.policy_plugins import POLICIES, find_policy

__all__ = ["POLICIES", "Config", "LoadedConfig", "find_policy", "load_config", "make_config"]
