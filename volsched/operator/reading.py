"""From a Volcano Job as a user wrote it to what the controllers work on; whatever is wrong with it becomes words."""

from __future__ import annotations

from typing import Any

from volsched.controllers import jobs
from volsched.controllers.job_controller import JobView
from volsched.controllers.objects import GivenJob
from volsched.model import api
from volsched.model.errors import ObjectError
from volsched.validation.jobs import job_faults

Json = dict[str, Any]


def job_view(raw: Json, scheduler_names: tuple[str, ...], default_queue: str) -> JobView:
    """Return a Volcano Job; one that cannot be read, or is not right, has a `problem`."""
    try:
        job = api.decode_as(api.Job, raw)
        api.decode_as(GivenJob, raw)
    except ObjectError as error:
        return JobView(raw, api.Job(metadata=api.identity_of(raw)), problem=f"{error.field}: {error.message}")
    default = "volcano" if "volcano" in scheduler_names else scheduler_names[0]
    job = jobs.with_defaults(job, default, default_queue)
    faults = [f"{fault.field}: {fault.message}" for fault in job_faults(job, {}) if fault.severity == "error"]
    named = [job.spec.scheduler_name, *(task.template.spec.scheduler_name for task in job.spec.tasks)]
    foreign = next((name for name in named if name and name not in scheduler_names), "")
    return JobView(raw, job, problem="; ".join(faults), foreign=foreign)
