"""Two runs that differ in CPUs and memory alone: what the comparison says of them."""

from pathlib import Path

from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import load_config
from shunter.run import simulate

FIFO = "fifo, because it was ordered by submission alone"


def test_diff_of_runs_with_other_sizes_tells_them(tmp_path: Path) -> None:
    logs = []
    for sizing in ("proportional", "tune"):
        config = tmp_path / f"{sizing}.toml"
        config.write_text(
            f"""
            [[cluster.nodes]]
            name = "n1"
            gpus = 2
            cpus = 12
            memory_gb = 100
            [workload]
            trace = "jobs.csv"
            sensitivity = "builtin:synergy"
            [policy]
            name = "fifo"
            sizing = "{sizing}"
            [log]
            url = "{tmp_path}/{sizing}.db"
            """
        )
        (tmp_path / "jobs.csv").write_text(
            "job_id,submit_s,duration_s,gpus,model\na,0,60,1,shufflenet\n"
        )
        simulate(load_config(config, [], {}))
        logs.append(f"{tmp_path}/{sizing}.db")
    said = " ".join(CliRunner().invoke(app, ["diff", *logs]).output.split())
    assert f"place a -> n1[0]: {FIFO}, with 6 CPUs and 50000 MB" in said
    assert f"place a -> n1[0]: {FIFO}, with 12 CPUs" in said
