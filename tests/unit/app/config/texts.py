"""Configs of which tests change a key or two, and the files that they name."""

import json
from pathlib import Path

from shunter.config import LoadedConfig, load_config

SERVER = '[[cluster.nodes]]\nname = "n"\ngpus = 4\ntype = "v100"\n'
GENERATED = f"{SERVER}[workload.generate]\n"
SIZED = (
    f"{SERVER}cpus = 12\nmemory_gb = 250\n"
    '[workload]\ntrace = "jobs.csv"\nsensitivity = "builtin:synergy"\n'
    '[policy]\nname = "las"\nsizing = "tune"\n'
)
RATED = (
    f'{SERVER}[[cluster.nodes]]\nname = "m"\ngpus = 4\ntype = "k80"\n'
    '[workload]\ntrace = "jobs.csv"\nthroughputs = "rates.json"\n'
)
SKEWED = f'{SERVER}[workload]\ntrace = "models.csv"\n[policy]\nplacement = "skew"\n'
BY_FILE = f'{SKEWED}[policy.skew]\ntable = "skews.csv"\n'
TOPOLOGY = (
    f'{SERVER}[workload.generate]\n[policy]\nname = "las"\nplacement = "topology"\n'
    "[policy.topology]\npack_above = 0.8\nspread_below = 0.4\n"
)
LIVE = f'{SERVER}[backend]\nkind = "local"\nlocal.root = "r"\n[log]\nurl = "log.db"\n'
TURNS = f'{LIVE}[policy]\nname = "gandiva"\ntrigger = "event"\n[policy.slicing]\n'
GROUPS = '[[cluster.nodes]]\nname = "a"\ngpus = 8\n[workload.generate]\n'
UNITS = (
    '[[cluster.nodes]]\nname = "c"\ngpus = 0\nunits = 2\ntype = "cpu"\ncpus = 4\n'
    '[[cluster.nodes]]\nname = "g"\ngpus = 1\ntype = "v100"\ncpus = 8\n'
    '[workload]\ntrace = "jobs.csv"\nthroughputs = "units.json"\n'
)
FILES = {
    "jobs.csv": "job_id,submit_s,gpus,duration_s\na,0,1,10\n",
    "models.csv": (
        "job_id,submit_s,gpus,duration_s,model,skew\n"
        "a,0,2,10,vgg16,\nb,0,2,10,new,\nc,0,2,10,,0.5\n"
    ),
    "skews.csv": "model,total_mb,largest_mb,skew\nvgg16,500,400,0.8\nflat,1000,10,0.01\n",
    "rates.json": json.dumps({name: {"('LM', 1)": {"null": 1.0}} for name in ("v100", "k80")}),
    "units.json": json.dumps({name: {"('LM', 1)": {"null": 1.0}} for name in ("v100", "cpu")}),
    "pairs.json": json.dumps(
        {name: {"('LM', 1)": {"null": 2.0, "('LM', 1)": [1, 1]}} for name in ("v100", "cpu")}
    ),
}


def written(folder: Path, config: str) -> Path:
    """Write a config, and beside it all files that any of them names; return its path."""
    for name, text in {**FILES, "run.toml": config}.items():
        (folder / name).write_text(text)
    return folder / "run.toml"


def loaded(folder: Path, config: str, settings: str = "") -> LoadedConfig:
    """Load a config beside those files, with settings that are parted by semicolons."""
    overrides = [("--set", setting) for setting in settings.split("; ") if setting]
    return load_config(written(folder, config), overrides, {})


def called(value: object) -> str | None:
    """Return how one of these configs is called, as the name of a case; None: it is none."""
    return next((name.lower() for name, text in globals().items() if text is value), None)
