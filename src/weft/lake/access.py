"""Our identity at an object store: where credentials are found, and what each library calls them."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from pydantic import Field, field_validator

from weft.configuration import HiddenValue, Section
from weft.lake.address import StoreKind, TableError
from weft.limits import KIB
from weft.references import find_file, read_secret

PROFILES_BYTES_MAX: Final = 256 * KIB  # of ~/.aws/credentials: a thousand profiles
REFERENCES: Final = ("access_key", "secret_key", "session_token", "account_key")
HIDDEN: Final = "***"
REGION_OF_ENDPOINTS: Final = "us-east-1"  # what S3's imitations take for their own
# The names of pyiceberg's FileIO for those that the Rust stores use (deltalake, obstore).
ICEBERG_NAMES: Final = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_region": "s3.region",
    "aws_endpoint": "s3.endpoint",
    "azure_storage_account_key": "adls.account-key",
}


class StoreSection(Section):
    """How to reach an object store. Nothing set: the environment, the default profile, or the machine's own role."""

    endpoint: str | None = Field(default=None, description="The store's address, if it is not the cloud's own.")
    region: str | None = Field(default=None, description="S3: the bucket's region.")
    profile: str | None = Field(default=None, description="S3: a profile of `~/.aws/credentials`.")
    access_key: str | None = Field(default=None, description="S3: where the key's id is, `file:PATH` or `env:NAME`.")
    secret_key: str | None = Field(default=None, description="S3: where the secret key is. Never the key itself.")
    session_token: str | None = Field(default=None, description="S3: where the session's token is, if there is one.")
    account_key: str | None = Field(default=None, description="Azure: where the account's key is.")
    service_account: str | None = Field(default=None, description="Google: the file of a service account.")

    @field_validator(*REFERENCES)
    @classmethod
    def _is_reference(cls, given: str | None) -> str | None:
        if given is not None and not given.startswith(("file:", "env:")):
            raise HiddenValue("has to be file:PATH or env:NAME, where to find the key: Spark logs what it is given")
        return given

    @field_validator("endpoint")
    @classmethod
    def _is_endpoint(cls, given: str | None) -> str | None:
        if given is not None:
            _check_endpoint(given)
        return given

    def access(self) -> StoreAccess:
        return StoreAccess(**self.model_dump())


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The same settings as a value that can be sent to other processes."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key: str | None = None  # file:/path or env:NAME, like the keys and tokens below
    secret_key: str | None = None
    session_token: str | None = None
    account_key: str | None = None
    service_account: str | None = None

    def __post_init__(self) -> None:
        if (self.access_key is None) != (self.secret_key is None):
            raise TableError("store: access_key and secret_key go together")
        if self.profile is not None and self.access_key is not None:
            raise TableError("store: give a profile, or access_key and secret_key")

    def text(self) -> str:
        """As the text of a Spark option; empty if nothing is set."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(given).decode() if given else ""

    @classmethod
    def from_text(cls, text: str) -> StoreAccess:
        """Read what ``text`` returned."""
        try:
            section = StoreSection(**msgspec.json.decode(text, type=dict[str, str])) if text else StoreSection()
        except (ValueError, TypeError):  # the message does not quote the value: it may hold a key
            raise TableError("option store is a JSON object of settings, with file:PATH or env:NAME for keys") from None
        return section.access()

    def credentials(self, kind: StoreKind, environ: Mapping[str, str]) -> Credentials:
        """Look up the credentials on this machine, now: a file may have been replaced."""
        match kind:
            case StoreKind.DIRECTORY:
                return Credentials({})
            case StoreKind.S3:
                found = self._of_s3(environ)
            case StoreKind.GCS:
                file = None if self.service_account is None else find_file(self.service_account)
                found = {"google_service_account": str(file)} if file else {}
            case StoreKind.AZURE:
                found = {"azure_storage_account_key": _secret("account_key", self.account_key)}
        if self.endpoint is not None and kind is not StoreKind.S3:
            found["google_base_url" if kind is StoreKind.GCS else "azure_endpoint"] = self.endpoint
        return Credentials({name: value for name, value in found.items() if value})

    def _of_s3(self, environ: Mapping[str, str]) -> dict[str, str]:
        endpoint = self.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        try:
            _check_endpoint(endpoint or "https://cloud")
        except ValueError as error:
            raise TableError(f"AWS_ENDPOINT_URL {error}") from None
        found = {
            "aws_access_key_id": _secret("access_key", self.access_key),
            "aws_secret_access_key": _secret("secret_key", self.secret_key),
            "aws_session_token": _secret("session_token", self.session_token),
            "aws_region": self.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "",
            "aws_endpoint": endpoint,
        }
        if not found["aws_access_key_id"]:
            by_environment = "AWS_ACCESS_KEY_ID" in environ and self.profile is None
            keys = _of_environment(environ) if by_environment else _of_profile(self.profile, environ)
            found |= {name: value for name, value in keys.items() if not found.get(name)}
        if endpoint:
            found["aws_region"] = found["aws_region"] or REGION_OF_ENDPOINTS
        return found


@dataclass(frozen=True, slots=True)
class Credentials:
    """Settings of a store by the names of Rust's ``object_store``, on which ``deltalake`` and ``obstore`` are built."""

    values: Mapping[str, str] = field(repr=False)

    @property
    def allows_http(self) -> bool:
        return any(value.startswith("http://") for value in self.values.values())

    def delta(self) -> dict[str, str]:
        """As ``deltalake`` takes them. A commit is a conditional put: the store refuses it if the file exists."""
        conditional = {"conditional_put": "etag"} if "aws_region" in self.values else {}
        return {**self.values, **conditional, **({"allow_http": "true"} if self.allows_http else {})}

    def iceberg(self) -> dict[str, str]:
        """As pyiceberg's FileIO takes them; the rest is for its own configuration."""
        return {ICEBERG_NAMES[name]: value for name, value in self.values.items() if name in ICEBERG_NAMES}

    def scrubbed(self, text: str) -> str:
        """Another program's error text with our secrets removed."""
        for name, value in self.values.items():
            if any(word in name for word in ("key", "token")) and value:
                text = text.replace(value, HIDDEN)
        return text


def _secret(name: str, reference: str | None) -> str:
    return "" if reference is None else read_secret(f"store.{name}", reference)


def _check_endpoint(text: str) -> None:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise HiddenValue("has to be http://HOST:PORT or https://HOST:PORT, without a key in it")


def _of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return {name.lower(): environ.get(name, "") for name in names}


def _of_profile(wanted: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Keys and region of a profile, as every AWS tool reads them. Empty if no profile was asked for and there is none:
    a machine can have a role instead."""
    profile = wanted or environ.get("AWS_PROFILE")
    home = Path(environ.get("HOME") or Path.home()) / ".aws"
    found: dict[str, str] = {}
    for file, section in (
        (Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"), profile or "default"),
        (Path(environ.get("AWS_CONFIG_FILE") or home / "config"), f"profile {profile}" if profile else "default"),
    ):
        found |= {name: value for name, value in _section(file, section).items() if name not in found}
    if profile and not found.get("aws_access_key_id"):
        raise TableError(
            "the profile has no access key. Single sign-on and roles of profiles are not read: put keys into the "
            "environment",
            profile=profile,
        )
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return {name: found.get(name, "") for name in names} | {"aws_region": found.get("region", "")}


def _section(file: Path, name: str) -> dict[str, str]:
    try:
        if file.stat().st_size > PROFILES_BYTES_MAX:
            raise TableError("the file of profiles is too large", file=file, limit=PROFILES_BYTES_MAX)
        parser = configparser.RawConfigParser()
        parser.read_string(file.read_text())
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError):  # whose texts quote the file
        raise TableError("the file of profiles cannot be read: it is not in the form of AWS", file=file) from None
    return dict(parser[name]) if parser.has_section(name) else {}
