"""What the process of a live policy imports: a daemon waits for it at each start."""

import subprocess
import sys

NOT_NEEDED = (
    "asyncio",
    "sqlalchemy",
    "sqlite3",
    "shunter.app.live",
    "shunter.app.runs",
    "shunter.backends.local",
    "shunter.backends.slurm",
    "shunter.backends.ssh",
    "shunter.events.log",
)


def test_policys_process_imports_nothing_of_the_daemon() -> None:
    code = (
        "import sys\n"
        "import shunter.app.policy_process.child\n"
        f"print([name for name in {NOT_NEEDED!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
