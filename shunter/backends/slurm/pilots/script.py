"""What a pilot is, as Slurm is told: a batch script and the options of sbatch."""

from shunter.backends.slurm.batch_jobs import batch_script, usual_options
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings


def pilot_script(python: str, agent: str, file: str, folder: str) -> str:
    """Return the script, which says where the pilot's secret lies, not what it is."""
    return batch_script((python, "-I", "-S", agent, "pilot", file, folder))


def pilot_options(
    settings: SlurmSettings, server: SlurmServer, pilot: str, limit_s: float
) -> list[str]:
    """Return the options of sbatch: one node, all its GPUs, CPUs and memory."""
    output = f"{settings.root}/pilots/{pilot}.out"
    options = [
        *usual_options(settings, pilot, output, limit_s, "USR1"),
        f"--nodelist={server.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={max(1, len(server.cpus))}",
    ]
    if server.gres:
        options.append(f"--gres={server.gres}")
    if server.memory_mb:
        options.append(f"--mem={server.memory_mb}M")
    return [*options, *settings.options]
