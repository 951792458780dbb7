"""What the doctor says of the versions that serve."""

from __future__ import annotations

import pytest
from temporalio.common import WorkerDeploymentVersion

from clients.checks.installation import check_versions
from clients.runs.service.deployments import ServedQueue, ServedVersion

OLD, NEW = (WorkerDeploymentVersion("ratchet", build) for build in ("1.0", "1.1"))
KNOWN = (ServedVersion("1.1", "current"), ServedVersion("1.0", "draining"))


@pytest.mark.parametrize(
    ("seen", "status", "said"),
    [
        (ServedQueue(unversioned=False, polled=(), current=None), "ok", "none at work"),
        (ServedQueue(unversioned=True, polled=(), current=None), "ok", "at work, without versions"),
        (
            ServedQueue(unversioned=False, polled=(OLD, NEW), current=NEW, versions=KNOWN),
            "ok",
            "deployment ratchet: 1.1 current, 1.0 draining",
        ),
        (ServedQueue(unversioned=False, polled=(NEW,), current=None), "fail", "none is current, so runs wait"),
        (ServedQueue(unversioned=False, polled=(OLD,), current=NEW, versions=KNOWN), "fail", "nobody serves the current one"),
        (ServedQueue(unversioned=False, polled=(NEW,), current=NEW, versions=KNOWN), "fail", "nobody serves 1.0, so the runs"),
        (
            ServedQueue(unversioned=True, polled=(OLD, NEW), current=NEW, versions=KNOWN),
            "warn",
            "workers without RATCHET_DEPLOYMENT",
        ),
        (ServedQueue(unversioned=True, polled=(NEW,), current=None), "warn", "workers of a version are there as well, and get"),
    ],
)
def test_it_tells_who_serves_and_what_to_do_where_runs_wait(seen: ServedQueue, status: str, said: str) -> None:
    check = check_versions(seen)
    assert check.status == status
    assert said in check.detail
    assert (check.fix is None) == (status == "ok")
