"""The page of a job: its message, its explanation, and the reasons so far."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from volsched.diagnose.redaction import redacted
from volsched.ui.context import PageContext
from volsched.ui.questions import QuestionError
from volsched.ui.redaction import without_names


class JobPage:
    """Serves a job. The explanation takes seconds, so the page loads it afterwards."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the page and of the explanation."""
        address = "/job/{namespace}/{name}"
        return [web.get(address, self._job), web.get(f"{address}/explanation", self._explanation)]

    async def _job(self, request: web.Request) -> web.Response:
        scope, namespace, name = await self._context.scope_of_job(request)
        _, picture = await self._context.source.picture()
        job = picture.job(namespace, name)
        reasons = [
            (reason.since, reason.step, without_names(scope, reason.message))
            for reason in self._context.source.reasons(namespace, name)
        ]
        message = "" if job is None else without_names(scope, job.message)
        return self._context.page("job", namespace=namespace, name=name, job=job, message=message, reasons=reasons)

    async def _explanation(self, request: web.Request) -> web.Response:
        scope, namespace, name = await self._context.scope_of_job(request)
        try:
            answer = await self._context.questions.explanation(await self._context.asker(request), namespace, name)
        except QuestionError as error:
            problem = str(error) if scope.is_whole else "It could not be worked out."
            return self._context.page("job_explanation", answer=None, problem=problem)
        if answer is None:
            return self._context.page(
                "job_explanation", answer=None, problem=f"There is no job {namespace}/{name} any more."
            )
        return self._context.page(
            "job_explanation", answer=answer if scope.is_whole else redacted(answer, scope.names), problem=""
        )
