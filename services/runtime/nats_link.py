"""The one connection to NATS. Everything that is peculiar about nats-py ends here (event-backbone.md, sharp edges)."""

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import nats
import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from schemas.envelope import Message
from schemas.faults import Misconfigured, NotAllowed, Poison, Transient
from services.runtime.credentials import is_worker_credentials, read_credentials
from services.runtime.settings import Settings

REQUEST_TIMEOUT_S = 5.0
PING_INTERVAL_S = 10
"""A half-open connection is noticed after two missed pings (event-backbone.md: 10 to 20 s)."""
RECONNECT_WAIT_S = 1
NO_LIMIT = -1
"""nats-py closes for good, with no exception, after 60 attempts (#735)."""
CLOSE_TIMEOUT_S = 2.0
OWN_HEADERS = "Nats-"

_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)
_UNAUTHORIZED = "authorization violation"

T = TypeVar("T")
log = structlog.get_logger()


class Refused(Transient):
    """JetStream answered with an error."""

    def __init__(self, subject: str, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{subject}: {description} ({err_code})")
        self.code = code
        self.err_code = err_code


class Inbox:
    """Messages sent to one reply subject, in order."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._messages: deque[Msg] = deque()
        self._news = asyncio.Event()
        self.subscription: Subscription | None = None

    async def put(self, message: Msg) -> None:
        """`message` is the last one in the inbox."""
        self._messages.append(message)
        self._news.set()

    def pop(self) -> Msg | None:
        """The first message, if there is one already."""
        return self._messages.popleft() if self._messages else None

    async def get(self, timeout_s: float) -> Msg | None:
        """The first message, or None when none came in time."""
        if not self._messages:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        return self._messages.popleft()


class Link:
    """A connection that comes back for as long as it takes, and says so when it never will."""

    def __init__(self, inbox_prefix: str) -> None:
        self.inbox_prefix = inbox_prefix
        self._client = Client()
        self._up = asyncio.Event()
        self._closing = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._denials: dict[str, asyncio.Future[None]] = {}

    @classmethod
    async def open(cls, settings: Settings, name: str) -> "Link":
        """Connected as `name`; waits for a server that is not there yet. Raises NotAllowed on bad credentials."""
        link = cls(f"_INBOX_{name}")
        connecting = asyncio.ensure_future(link._connect(settings, name))
        await asyncio.wait([connecting, link._refused], return_when=asyncio.FIRST_COMPLETED)
        if link._refused.done():
            connecting.cancel()
            raise NotAllowed(refusal(settings))
        await connecting
        link._up.set()
        return link

    async def _connect(self, settings: Settings, name: str) -> None:
        try:
            await self._client.connect(
                settings.nats_url,
                name=f"assay/{name}/{settings.copy_id}",
                **_identity(settings),
                inbox_prefix=self.inbox_prefix,
                max_reconnect_attempts=NO_LIMIT,
                reconnect_time_wait=RECONNECT_WAIT_S,
                ping_interval=PING_INTERVAL_S,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
            )
        except (ValueError, FileNotFoundError) as error:
            raise Misconfigured(f"{settings.nats_url}: {error}") from error

    @property
    def open_for_good(self) -> bool:
        """False once the connection is closed or the server no longer accepts us."""
        return not self._client.is_closed and not self._refused.done()

    async def up(self) -> None:
        """The connection is up. Raises Transient when it is closed for good."""
        await self._up.wait()
        if not self.open_for_good:
            raise Transient("the connection to NATS is closed")

    def require(self) -> None:
        """Raises Transient unless the connection is up now (nats-py would buffer what is sent, and send it late)."""
        if not self._client.is_connected:
            raise Transient("NATS is away")

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Msg:
        """The reply. Raises NotAllowed, Poison (over the payload limit), or Transient for everything that may pass.

        An exception does not mean that the request did not arrive.
        """
        self.require()
        copied = dict(headers) if headers else None  # nats-py changes the caller's headers
        asking = self._client.request(subject, body, timeout=timeout_s, headers=copied)
        return await self._unless_denied(subject, _translated(subject, asking))

    async def send(self, subject: str, body: bytes, reply: str = "", headers: Mapping[str, str] | None = None) -> None:
        """`body` is on its way; no answer is awaited."""
        self.require()
        copied = dict(headers) if headers else None
        await _translated(subject, self._client.publish(subject, body, reply=reply, headers=copied))

    async def api(self, endpoint: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """JetStream's answer. Raises Refused when it is an error."""
        subject = f"$JS.API.{endpoint}"
        message = await self.request(subject, json.dumps(body).encode() if body is not None else b"")
        return parse_answer(subject, message.data)

    async def inbox(self) -> Inbox:
        """A new inbox. It survives reconnects."""
        inbox = Inbox(self._client.new_inbox())
        self.require()
        inbox.subscription = await _translated(inbox.subject, self._client.subscribe(inbox.subject, cb=inbox.put))
        return inbox

    async def drop(self, inbox: Inbox) -> None:
        """Nothing is sent to `inbox` any more."""
        if inbox.subscription is None or not self._client.is_connected:
            return
        await _translated(inbox.subject, inbox.subscription.unsubscribe())

    async def close(self) -> None:
        """Closed. Not drained: drain waits for pull messages that nobody will read (30 s, event-backbone.md)."""
        self._closing = True
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._client.close()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            log.warning("nats did not close in good order", error=str(error))

    async def _unless_denied(self, subject: str, asking: Awaitable[Msg]) -> Msg:
        """The answer, or at once the reason why none will come: nats-py would only time out."""
        key = subject.lower()
        denial = self._denials.setdefault(key, asyncio.get_running_loop().create_future())
        reply = asyncio.ensure_future(asking)
        try:
            first: set[asyncio.Future[Any]] = {reply, denial, self._lost}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if reply.done():
                return reply.result()
            if denial.done():
                raise NotAllowed(f"these credentials may not publish {subject}")
            raise Transient(f"{subject}: the connection was lost before the answer")
        finally:
            reply.cancel()
            self._denials.pop(key, None)

    async def _on_error(self, error: Exception) -> None:
        denied = _DENIED.search(str(error))
        if denied:
            denial = self._denials.get(denied[2].lower())
            if denial and not denial.done():
                denial.set_result(None)
            log.error("nats permission violation", operation=denied[1].lower(), subject=denied[2])
        elif _UNAUTHORIZED in str(error).lower():
            if not self._refused.done():
                self._refused.set_result(None)
        else:
            log.warning("nats", error=str(error) or type(error).__name__)

    async def _on_disconnected(self) -> None:
        self._up.clear()
        if self._closing:
            return
        if not self._lost.done():
            self._lost.set_result(None)
        log.warning("nats disconnected")

    async def _on_reconnected(self) -> None:
        self._lost = asyncio.get_running_loop().create_future()
        self._up.set()
        log.info("nats reconnected")

    async def _on_closed(self) -> None:
        self._up.set()  # whoever waits shall hear that it is over


def refusal(settings: Settings) -> str:
    """Whose credentials the server does not accept, in words."""
    whose = settings.nats_creds or settings.nats_user or "nobody"
    return f"{settings.nats_url} does not accept the credentials of {whose}; they are wrong, or were revoked"


def _identity(settings: Settings) -> dict[str, Any]:
    """Who connects: a file of credentials, else user and password. Raises Misconfigured for a file that is none."""
    if settings.nats_creds is None:
        password = settings.nats_password.get_secret_value() if settings.nats_password else None
        return {"user": settings.nats_user, "password": password}
    if is_worker_credentials(settings.nats_creds):
        return {"nkeys_seed_str": read_credentials(settings.nats_creds).seed.get_secret_value()}
    return {"user_credentials": str(settings.nats_creds)}


def message_of(message: Msg) -> Message:
    """What was published: NATS' own headers are left out, the others copied."""
    headers = {name: value for name, value in (message.headers or {}).items() if not name.startswith(OWN_HEADERS)}
    return Message(message.subject, headers, message.data)


def parse_answer(subject: str, data: bytes) -> dict[str, Any]:
    """The body of a JetStream answer. Raises Refused when it is an error."""
    answer: dict[str, Any] = json.loads(data)
    if "error" in answer:
        error = answer["error"]
        raise Refused(subject, error.get("code", 0), error.get("err_code", 0), error.get("description", ""))
    return answer


async def _translated(subject: str, asking: Awaitable[T]) -> T:
    """The border: nats-py's exceptions become ours."""
    try:
        return await asking
    except nats.errors.MaxPayloadError as error:
        raise Poison(f"{subject}: larger than the bus carries (1 MB)") from error
    except nats.errors.BadSubjectError as error:
        raise Poison(f"{subject!r} is no subject") from error
    except nats.errors.NoRespondersError as error:
        raise Transient(f"{subject}: nobody answers") from error
    except (nats.errors.Error, TimeoutError, OSError) as error:
        raise Transient(f"{subject}: {error or type(error).__name__}") from error
