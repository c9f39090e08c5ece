"""A client of a Confluent-compatible schema registry: schemas by id and by subject."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

from barnabas.spark.user_errors import SparkFailure, WrongOption

_TIMEOUT_S: Final = 30.0
_JSON: Final = "application/vnd.schemaregistry.v1+json"


class NotRegistered(SparkFailure):
    """The registry does not have what was asked for."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema with its kind, AVRO, PROTOBUF or JSON, and the schemas that it refers to."""

    kind: str
    text: str
    references: Mapping[str, "RegisteredSchema"] = field(default_factory=dict)


class RegistryClient:
    """Requests to one registry; schemas by id are immutable and cached."""

    def __init__(self, url: str) -> None:
        """Raises WrongOption if the URL is not one of HTTP."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WrongOption(f"option schema.registry.url is {url!r} but must be http://HOST:PORT")
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        self._url = f"{parts.scheme}://{host}{parts.path}".rstrip("/")
        self._headers = {"Accept": _JSON, "Content-Type": _JSON}
        if parts.username:
            login = f"{parts.username}:{parts.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._by_id: dict[int, RegisteredSchema | None] = {}

    def find_schema(self, number: int) -> RegisteredSchema | None:
        """The schema with this id, or None. Raises SparkFailure if the registry fails."""
        if number not in self._by_id:
            try:
                found = self._request(f"/schemas/ids/{number}?format=serialized")
            except NotRegistered:
                self._by_id[number] = None
            else:
                self._by_id[number] = self._parsed(found)
        return self._by_id[number]

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All schemas of a subject, oldest first. Raises SparkFailure if there are none."""
        name = quote(subject, safe="")
        numbers = self._request(f"/subjects/{name}/versions")
        return [
            self._parsed(self._request(f"/subjects/{name}/versions/{each}?format=serialized"))
            for each in numbers
        ]

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema and return its id, which is the old one if it is known."""
        body = {"schema": text, "schemaType": kind}
        found = self._request(f"/subjects/{quote(subject, safe='')}/versions", body)
        return int(found["id"])

    def _parsed(self, found: Mapping[str, Any]) -> RegisteredSchema:
        references = {
            each["name"]: self._parsed(
                self._request(
                    f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
                    "?format=serialized"
                )
            )
            for each in found.get("references") or ()
        }
        return RegisteredSchema(found.get("schemaType") or "AVRO", found["schema"], references)

    def _request(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            kind = NotRegistered if error.code == HTTPStatus.NOT_FOUND else SparkFailure
            raise kind(f"the registry at {self._url}: {_message(error)}") from None
        except (OSError, ValueError) as error:
            raise SparkFailure(f"the registry at {self._url} does not answer: {error}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"{error.code} {error.reason}"
