"""What people see of a policy that fails: in every place where they would look."""

from pathlib import Path

import pytest

from shunter.errors import RefusedError
from tests.live.api.serving import CONFIG, Served, awaited

pytestmark = pytest.mark.live

# This policy fails as long as there is a job whose model its table does not know.
FAILS = CONFIG.replace("gpus = {gpus}", 'gpus = {gpus}\ntype = "v100"').replace(
    'trigger = "event"', 'name = "gavel_peer"\nround = "0.2s"'
)
FAILS += '[workload]\nthroughputs = "builtin:gavel"\n'
CAUSE = "job j1: its model is not in the table"


def test_policy_that_fails_is_told_of_wherever_people_look(tmp_path: Path) -> None:
    daemon = Served(tmp_path)
    daemon.config.write_text(
        FAILS.format(root=tmp_path, nodes="n0", server="", cpus=0, gpus=4), encoding="utf-8"
    )
    with daemon as served, served.client() as client:
        job = client.submit(["true"])
        assert CAUSE in awaited(lambda: client.daemon()["policy_fault"])
        said = awaited(lambda: served.said() if "Traceback" in served.said() else "")
        assert "none starts" in said
        assert CAUSE in served.run("why", job.id).stdout
        found = served.run("doctor", str(served.config))
        assert "BAD   policy" in found.stdout
        assert CAUSE in found.stdout
        with served.http() as http:
            assert "shunter_policy_failing 1.0" in http.get("/metrics").text

        job.cancel()
        awaited(lambda: not client.daemon()["policy_fault"])
        awaited(lambda: "policy gavel_peer works again" in served.said())
        with pytest.raises(RefusedError):
            client.cancel(job.id)
