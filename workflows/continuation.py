"""Whether what continues as new begins on another version of the workers."""

from __future__ import annotations

from temporalio import workflow


def versioning_behavior(info: workflow.Info) -> workflow.ContinueAsNewVersioningBehavior | None:
    """Tell Temporal to begin on the version that is current by now; None where that is this one, or workers have none."""
    if not info.is_target_worker_deployment_version_changed():
        return None
    return workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE
