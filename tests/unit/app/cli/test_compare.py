"""`shunter compare` that is cut off prints what has finished."""

import json
import signal
import subprocess
import sys
from pathlib import Path

CONFIG = """\
[[cluster.nodes]]
name = "n[1-4]"
gpus = 8
[workload.generate]
kind = "philly-like"
jobs = {jobs}
"""


def test_comparison_that_is_cut_off_prints_what_has_finished(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.format(jobs=400), encoding="utf-8")
    words = ["compare", "run.toml", "--policies", "fifo,las", "--seeds", "500", "-j", "2", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "shunter", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "runs done: 1 of 1000\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate()
    assert child.returncode == 130, err
    document = json.loads(out)
    assert 0 < len(document["runs"]) == 1000 - document["unfinished"] < 1000
    assert [each["policy"] for each in document["policies"]] == ["fifo"]
    assert err.endswith(f"cut off: {document['unfinished']} of 1000 runs had not finished\n")
    assert "Traceback" not in err
