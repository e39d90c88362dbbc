"""Everything a process can be told, read once at the composition root from `ASSAY_*` variables."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from schemas.faults import Misconfigured
from schemas.goal import Search
from schemas.ids import Token

PREFIX = "ASSAY_"

LogLevel = Literal["debug", "info", "warning", "error"]
Isolation = Literal["auto", "bwrap", "landlock", "none"]


def _default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "assay"


def _fresh_copy() -> str:
    return secrets.token_hex(4)


def _comma_separated(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(word.strip() for word in value.split(",") if word.strip())


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
"""Words, comma-separated in the environment."""


class Settings(BaseSettings):
    """One frozen set of settings. `data_dir` is read from `ASSAY_DATA`, every other field from `ASSAY_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", populate_by_name=True)

    copy_id: Token = Field(default_factory=_fresh_copy)
    """Names this copy in sources, presence keys and logs. A restarted copy is another copy."""

    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    nats_creds: Path | None = None
    """Credentials in a file, instead of user and password: a joined worker's own, or a NATS `.creds` file."""
    listen: str = "127.0.0.1"
    """Where the embedded NATS listens, `HOST` or `HOST:PORT`: this machine only, unless workers elsewhere join."""
    postgres_dsn: str | None = None
    signing_key: Path | None = None
    """The file with this service's secret and certificate. Without it what the service states is unsigned."""
    checkpoints_dir: Path | None = None
    """Where the librarian keeps signed checkpoints; unset means `checkpoints` under `data_dir`."""
    checkpoint_every_s: float = Field(default=600.0, gt=0)
    """How often a checkpoint is written while the log grows. Chosen: that much can be cut off and not be missed."""

    data_dir: Path = Field(default_factory=_default_data_dir, validation_alias=AliasChoices("ASSAY_DATA"))
    artifacts_uri: str = ""
    """An fsspec URI; empty means the `artifacts` folder under `data_dir`."""
    quiet_dir: Path | None = None
    """Shared by all copies on the host; unset means `quiet` under `data_dir`."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """0 takes a free port and writes it to `<data_dir>/run/<service>-<copy>.json`."""
    log_level: LogLevel = "info"

    isolation: Isolation = "auto"
    """`none` must be asked for by name and is written into every verdict."""
    cpu_route: bool = True
    """False serves no CPU work: for load tests, and for hosts where nothing may be measured."""
    null_route: bool = False
    """True serves the `null` route as well: instant, deterministic work for load tests."""

    extra_spaces: Words = ()
    """Design spaces of your own: modules that export `SPACES`, imported at start. Their variants join
    Assay's, and meet the same judges. The librarian's desk reads them too: to know what a goal may name."""

    strategies: Words = Search().strategies
    """What a goal's `search.strategies` may name. The desk refuses others; a proposer that lacks one does not start."""

    ack_wait_s: float = Field(default=30.0, gt=0)
    """After this long without a sign of life the queue hands the message to another copy."""
    fetch_timeout_s: float = Field(default=1.0, gt=0)
    """How long one pull lingers; also how late an idle copy notices that it shall stop."""
    patience_s: float = Field(default=120.0, ge=0)
    """How long a held message waits for a dependency of its effect. Chosen: twice the longest outage we test."""
    drain_s: float = Field(default=10.0, ge=0)
    """How long work in hand may go on after SIGTERM; compose's stop_grace_period exceeds it."""
    presence_ttl_s: float = Field(default=30.0, gt=0)
    presence_refresh_s: float = Field(default=10.0, gt=0)
    stream_max_bytes: int = Field(default=8 * 1024**3, ge=1024**2)
    """Of the fact stream. Chosen: ten million facts at 0.8 GB a million (event-backbone.md)."""

    @property
    def artifacts(self) -> str:
        """Where artifacts are kept, as an fsspec URI."""
        return self.artifacts_uri or (self.data_dir.absolute() / "artifacts").as_uri()

    @property
    def quiet(self) -> Path:
        """The folder of the gate and quiet files."""
        return self.quiet_dir or self.data_dir / "quiet"

    @property
    def keys(self) -> Path:
        """The folder of the factory's keys, where this host bootstraps one."""
        return self.data_dir / "keys"

    @property
    def checkpoints(self) -> Path:
        """The folder of signed checkpoints."""
        return self.checkpoints_dir or self.data_dir / "checkpoints"

    @property
    def temporary(self) -> Path:
        """Where effects make their temporary files. What a killed one left is cleared when a factory starts."""
        return self.data_dir / "tmp"

    @property
    def run_dir(self) -> Path:
        """Where running processes say who they are."""
        return self.data_dir / "run"


def known_variables() -> tuple[str, ...]:
    """Every variable that `Settings` reads."""
    return tuple(sorted(_variable(name) for name in Settings.model_fields))


def read_settings(**overrides: Any) -> Settings:
    """The settings of this process. Raises Misconfigured, naming the variable, when one is unknown or wrong."""
    unknown = sorted(key for key in os.environ if key.startswith(PREFIX) and key not in known_variables())
    if unknown:
        raise Misconfigured(f"unknown setting {', '.join(unknown)}; known are {', '.join(known_variables())}")
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise Misconfigured("; ".join(_problem(detail) for detail in error.errors(include_url=False))) from error


def environment_of(settings: Settings) -> dict[str, str]:
    """The variables that give another process the same settings, all but its copy id."""
    found = {}
    for name, value in settings.model_dump(exclude={"copy_id"}).items():
        if value is None or value in ("", ()):
            continue
        found[_variable(name)] = _text(value)
    return found


def _text(value: object) -> str:
    """`value` as its variable holds it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def host_id(data_dir: Path) -> str:
    """A random id kept in the data folder: it names a machine without naming its owner."""
    path = data_dir / "host-id"
    data_dir.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x") as file:
            file.write(secrets.token_hex(8))
    except FileExistsError:
        pass
    text = path.read_text().strip()
    if not text:
        raise Misconfigured(f"{path} is empty; remove it and start again")
    return text


def _variable(name: str) -> str:
    return "ASSAY_DATA" if name == "data_dir" else PREFIX + name.upper()


def _problem(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    name = _variable(where) if where in Settings.model_fields else where
    return f"{name}: {detail['msg']} (got {detail.get('input')!r})"
