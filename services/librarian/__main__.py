"""`python -m services.librarian`: recorder, curator, desk and timekeeper in one process. One leads, others wait."""

import structlog

from schemas.faults import Misconfigured, Transient
from services.evidence.leadership import PostgresLeadership
from services.evidence.postgres_log import PostgresLog
from services.evidence.views import PostgresViews
from services.librarian.catalogue import compose_catalogue
from services.librarian.notary import Notary
from services.librarian.term import Office, Term
from services.runtime.bus import GOALS_BUCKET, PRESENCE_BUCKET
from services.runtime.goal_view import GoalView
from services.runtime.handling import Backoff, patiently
from services.runtime.process import Hosted, hosted, run_process, unless_stopped
from services.runtime.routes import LIBRARIAN
from services.runtime.settings import Settings

log = structlog.get_logger()


async def serve(settings: Settings) -> None:
    """A librarian until SIGTERM: a spare while another leads, then the one that decides."""
    if settings.postgres_dsn is None:
        raise Misconfigured("the librarian keeps the log: set ASSAY_POSTGRES_DSN (`assay status -o json` shows it)")
    async with hosted(LIBRARIAN, settings) as process:
        memory = PostgresLog(settings.postgres_dsn)
        views = PostgresViews(settings.postgres_dsn)
        leadership = PostgresLeadership(settings.postgres_dsn)
        try:
            await unless_stopped(patiently("the log", memory.require_schema), process.stop)
            office = await unless_stopped(_office(process, memory, views, leadership), process.stop)
            process.health.ready = True
            await unless_stopped(_terms(office, process), process.stop)  # every step may be cut short and repeated
        finally:
            await leadership.release()
            await views.close()
            await memory.close()


async def _office(process: Hosted, memory: PostgresLog, views: PostgresViews, leadership: PostgresLeadership) -> Office:
    bus, settings = process.bus, process.settings
    return Office(
        bus=bus,
        log=memory,
        leadership=leadership,
        views=views,
        goals=GoalView(await patiently("the goals bucket", lambda: bus.bucket(GOALS_BUCKET))),
        presence=await patiently("the presence bucket", lambda: bus.bucket(PRESENCE_BUCKET)),
        stamp=process.stamp,
        metrics=process.metrics,
        catalogue=compose_catalogue(settings.extra_spaces, settings.strategies),
        now=process.stamp.now,
        ack_wait_s=settings.ack_wait_s,
        fetch_timeout_s=settings.fetch_timeout_s,
        presence_ttl_s=settings.presence_ttl_s,
        notary=_notary(process),
    )


def _notary(process: Hosted) -> Notary | None:
    settings = process.settings
    if process.key is None:
        return None
    return Notary(process.key, settings.checkpoints, settings.checkpoint_every_s, process.stamp.now)


async def _terms(office: Office, process: Hosted) -> None:
    """Term after term. A dependency that went away, or a lost lead, ends a term; the next one folds the log again."""
    waits = Backoff()
    while not process.stop.is_set():
        try:
            await office.leadership.acquire()
            term = await Term.begin(office)
            waits = Backoff()
            await term.serve()
        except Transient as fault:
            process.metrics.transients.inc()
            log.warning("the term ended", reason=str(fault))
        finally:
            await office.leadership.release()
        await waits.sleep(until=process.stop)


if __name__ == "__main__":
    run_process(LIBRARIAN, serve)
