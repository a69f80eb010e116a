"""Credentials: where they come from, what each library calls them, and that nobody sees them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from weft.configuration import BadConfig, Source, validated
from weft.errors import UsageError
from weft.lake.access import StoreAccess, StoreSection
from weft.lake.address import StoreKind, TableError
from weft.lake.settings import TableFormat, TableSection, TableSettings
from weft.spark.table_options import table_of

SECRET = "wJalrXUtnFEMI"


def keys_of(access: StoreAccess, environ: dict[str, str]) -> dict[str, str]:
    return dict(access.credentials(StoreKind.S3, environ).values)


def profiles(place: Path) -> dict[str, str]:
    (place / "credentials").write_text(
        "[default]\naws_access_key_id = AKID\naws_secret_access_key = d%s\n"
        "[lake]\naws_access_key_id = AKIL\naws_secret_access_key = l\naws_session_token = t\n[sso]\nsso_session = x\n"
    )
    (place / "config").write_text("[profile lake]\nregion = eu-central-1\n")
    return {
        "AWS_SHARED_CREDENTIALS_FILE": str(place / "credentials"),
        "AWS_CONFIG_FILE": str(place / "config"),
        "HOME": str(place),
    }


@pytest.mark.req("LAK-01")
def test_settings_come_before_the_environment_and_that_before_profiles(tmp_path: Path) -> None:
    files = profiles(tmp_path)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "id").write_text("AKIF")
    given = StoreAccess(access_key=f"file:{tmp_path}/id", secret_key=f"file:{tmp_path}/secret", region="r")
    of_environment = files | {"AWS_ACCESS_KEY_ID": "AKIE", "AWS_SECRET_ACCESS_KEY": "e", "AWS_REGION": "of-environment"}
    assert keys_of(given, of_environment) == {
        "aws_access_key_id": "AKIF",
        "aws_secret_access_key": SECRET,
        "aws_region": "r",
    }
    assert keys_of(StoreAccess(), of_environment)["aws_access_key_id"] == "AKIE"
    assert keys_of(StoreAccess(profile="lake"), of_environment) == {
        "aws_access_key_id": "AKIL",
        "aws_secret_access_key": "l",
        "aws_session_token": "t",
        "aws_region": "of-environment",
    }
    assert keys_of(StoreAccess(profile="lake"), files)["aws_region"] == "eu-central-1"
    assert keys_of(StoreAccess(), files | {"AWS_PROFILE": "lake"})["aws_access_key_id"] == "AKIL"
    assert keys_of(StoreAccess(), files)["aws_access_key_id"] == "AKID"
    assert keys_of(StoreAccess(), {"HOME": str(tmp_path / "none")}) == {}, "a machine may have a role"


def test_an_endpoint_of_plain_http_is_allowed_and_has_a_region() -> None:
    found = StoreAccess().credentials(StoreKind.S3, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "HOME": "/none"})
    assert found.delta() == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "us-east-1",
        "conditional_put": "etag",
        "allow_http": "true",
    }
    assert found.iceberg() == {"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "us-east-1"}


def test_other_clouds_have_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_ACCOUNT", SECRET)
    azure = StoreAccess(account_key="env:LAKE_ACCOUNT").credentials(StoreKind.AZURE, {})
    assert azure.delta() == {"azure_storage_account_key": SECRET}
    assert azure.iceberg() == {"adls.account-key": SECRET}
    google = StoreAccess(service_account=str(tmp_path / "key.json")).credentials(StoreKind.GCS, {})
    assert google.delta() == {"google_service_account": str(tmp_path / "key.json")}
    assert StoreAccess().credentials(StoreKind.DIRECTORY, {}).delta() == {}


@pytest.mark.req("LAK-01")
def test_what_travels_and_what_is_shown_has_no_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "id").write_text("AKIF")
    access = StoreAccess(access_key=f"file:{tmp_path}/id", secret_key=f"file:{tmp_path}/secret")
    settings = TableSettings("s3://bucket/t", TableFormat.DELTA, access=access)
    found = settings.credentials()
    assert found.values["aws_secret_access_key"] == SECRET
    for shown in (repr(settings), str(settings.options()), repr(found), found.scrubbed(f"no {SECRET}, no AKIF")):
        assert SECRET not in shown
        assert "AKIF" not in shown
    assert SECRET.encode() not in pickle.dumps(settings)
    assert table_of(settings.options()) == settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"access_key": "env:A"}, "access_key and secret_key go together"),
        ({"access_key": "env:A", "secret_key": "env:B", "profile": "x"}, "give a profile, or access_key and"),
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, str], words: str) -> None:
    with pytest.raises(TableError, match=words):
        StoreSection(**given).access()


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        (json.dumps({"secret_key": SECRET}), SECRET),
        (json.dumps({"nope": SECRET}), SECRET),
        (json.dumps({"endpoint": f"http://a:{SECRET}@host"}), SECRET),
        ("[]", "[]"),
    ],
)
def test_an_option_that_is_wrong_is_not_repeated(text: str, unseen: str) -> None:
    with pytest.raises(TableError, match="option store is a JSON object of settings") as refusal:
        StoreAccess.from_text(text)
    assert unseen not in str(refusal.value)


@pytest.mark.req("LAK-01")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"store": {"secret_key": SECRET}}, r"store\.secret_key: has to be file:PATH or env:NAME.*\(in lake\.toml\)"),
        ({"store": {"endpoint": f"http://a:{SECRET}@host"}}, r"store\.endpoint: has to be http://HOST:PORT"),
        ({"path": f"s3://AKIA:{SECRET}@bucket/t"}, "path: a table's path in S3 begins with s3:// and the name of a"),
    ],
)
def test_a_key_that_stands_in_a_file_of_settings_is_not_repeated(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfig, match=words) as refusal:
        validated(TableSection, [Source("lake.toml", {"path": "s3://bucket/t"} | given)])
    assert SECRET not in str(refusal.value)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    files = profiles(tmp_path)
    for access, environ, words in (
        (StoreAccess(profile="sso"), files, r"the profile has no access key.*profile sso"),
        (StoreAccess(profile="none"), files, r"the profile has no access key.*profile none"),
        (StoreAccess(access_key="env:WEFT_NOT_SET", secret_key="env:X"), {}, "no variable WEFT_NOT_SET"),
        (StoreAccess(), {"AWS_ENDPOINT_URL": f"http://k:{SECRET}@h"}, "AWS_ENDPOINT_URL has to be http"),
    ):
        with pytest.raises(UsageError, match=words) as refusal:
            access.credentials(StoreKind.S3, environ)
        assert SECRET not in str(refusal.value)
    (tmp_path / "credentials").write_text(f"{SECRET} is no profile")
    with pytest.raises(TableError, match="the file of profiles cannot be read") as refusal:
        StoreAccess().credentials(StoreKind.S3, files)
    assert SECRET not in str(refusal.value)
