"""Known vulnerabilities of the installed packages, from PyPI: ``make audit``.

PyPI's JSON of a release lists the advisories against it (from the Python advisory database). Mirrors often have that of
the latest release only, which will do for packages that are up to date. Status 1 if there is an advisory; 2 if the data
of some package cannot be had, because that was not checked then.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

PYPI = "https://pypi.org"
OURS = "weft"
TIMEOUT_S = 20.0
AT_ONCE = 8
UNKNOWN_SHOWN = 20  # packages that could not be checked, by name
ANSWER_BYTES_MAX = 64 << 20  # the JSON of a package with thousands of files


class Package(NamedTuple):
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Advisory(NamedTuple):
    package: Package
    name: str  # a CVE, where there is one
    fixed_in: str
    summary: str


class NoData(Exception):
    """Why the advisories of a package are not known."""


Fetch = Callable[[Package], Any]


def installed() -> list[Package]:
    """What is here, but for ourselves."""
    found = {Package(each.metadata["Name"].lower(), each.version) for each in distributions()}
    return sorted(each for each in found if each.name != OURS)


def advisories(package: Package, document: Any) -> list[Advisory]:
    """Those that still stand against this release; raise NoData if the document is not PyPI's."""
    try:
        standing = [each for each in document["vulnerabilities"] if not each.get("withdrawn")]
        return [
            Advisory(
                package,
                next((alias for alias in each.get("aliases", ()) if alias.startswith("CVE-")), each["id"]),
                ", ".join(each.get("fixed_in") or ["none yet"]),
                str(each.get("summary") or each.get("details") or "").split("\n")[0][:120],
            )
            for each in standing
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise NoData(f"the answer has no advisories ({error!r})") from None


def fetch_from(base: str) -> Fetch:
    place = urlsplit(base)
    connect = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection

    def ask(path: str) -> Any:
        """None if there is no such page."""
        connection = connect(place.netloc, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"{place.path}/pypi/{path}/json")
            answer = connection.getresponse()
            if answer.status == http.client.NOT_FOUND:
                return None
            if answer.status != http.client.OK:
                raise NoData(f"{base} answered {answer.status}")
            return json.loads(answer.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoData(f"{base}: {error}") from None
        finally:
            connection.close()

    def fetch(package: Package) -> Any:
        name = quote(package.name)
        document = ask(f"{name}/{quote(package.version)}")
        if document is not None:
            return document
        latest = ask(name)
        version = _version_of(latest)
        if version != package.version:
            raise NoData(f"{base} has advisories against its latest release only, {version or 'whichever that is'}")
        return latest

    return fetch


def _version_of(document: Any) -> str:
    """The release that the JSON of a project is about; empty if it does not say."""
    info = document.get("info") if isinstance(document, dict) else None
    return str(info.get("version", "")) if isinstance(info, dict) else ""


def audit(packages: Sequence[Package], fetch: Fetch) -> tuple[list[Advisory], dict[Package, str]]:
    """What stands against these, and for which of them that is not known, and why."""
    found: list[Advisory] = []
    unknown: dict[Package, str] = {}

    def look(package: Package) -> None:
        try:
            found.extend(advisories(package, fetch(package)))
        except NoData as error:
            unknown[package] = str(error)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(look, packages))
    return sorted(found), unknown


def report(packages: Sequence[Package], found: Iterable[Advisory], unknown: dict[Package, str]) -> int:
    """Print it; the exit status."""
    status = 0
    for each in found:
        print(f"{each.package}: {each.name}, fixed in {each.fixed_in}: {each.summary}")
        status = 1
    checked = len(packages) - len(unknown)
    if unknown:
        package, why = next(iter(sorted(unknown.items())))
        names = ", ".join(map(str, sorted(unknown)[:UNKNOWN_SHOWN]))
        print(f"no advisories can be had for {len(unknown)} packages ({names}); {package}: {why}")
    if not checked:
        print("NOTHING WAS CHECKED: run this where PyPI itself can be reached")
        return 2
    print(f"{checked} of {len(packages)} packages were checked" + ("" if status else ", nothing is known against them"))
    return status or (2 if unknown else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pypi", default=PYPI, help="whom to ask")
    packages = installed()
    found, unknown = audit(packages, fetch_from(parser.parse_args().pypi))
    sys.exit(report(packages, found, unknown))


if __name__ == "__main__":
    main()
