"""The REST API of the registry: what confluent-kafka's serializers and tools ask for."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from barnabas.cli.registry.compatibility import check_valid, incompatibilities
from barnabas.cli.registry.registry_state import (
    LEVELS,
    TYPES,
    RegistryError,
    Schema,
    Version,
    config_record,
)
from barnabas.cli.registry.registry_store import RegistryStore

Body = Mapping[str, Any]
Handler = Callable[..., Any]


class RegistryApi:
    """Answers requests; each either changes the topic as a whole or leaves it."""

    def __init__(self, store: RegistryStore) -> None:
        self._store = store

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """The status and the JSON of the response."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            for verb, pattern, handler in _ROUTES:
                match = pattern.fullmatch(parts.path.rstrip("/") or "/")
                if match and verb == method:
                    names = [unquote(each) for each in match.groups()]
                    with self._store.lock:
                        return 200, handler(self, *names, body=_parsed(body), query=query)
        except RegistryError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    # -- schemas and subjects ------------------------------------------------

    def root(self, body: Body, query: Body) -> Any:
        return {}

    def types(self, body: Body, query: Body) -> Any:
        return list(TYPES)

    def schema(self, number: str, body: Body, query: Body) -> Any:
        return self._by_id(number)[0].schema.to_json()

    def schema_text(self, number: str, body: Body, query: Body) -> Any:
        return self._by_id(number)[0].schema.plain

    def schema_versions(self, number: str, body: Body, query: Body) -> Any:
        return [
            {"subject": each.subject, "version": each.version}
            for each in self._by_id(number)
            if not each.deleted
        ]

    def _by_id(self, number: str) -> list[Version]:
        try:
            return self._store.state.by_id(int(number))
        except RegistryError:
            self._store.refresh()  # another registry may have registered it
            return self._store.state.by_id(int(number))

    def subjects(self, body: Body, query: Body) -> Any:
        self._store.refresh()
        names = sorted(self._store.state.subjects)
        return [name for name in names if self._store.state.live(name)]

    def versions(self, subject: str, body: Body, query: Body) -> Any:
        self._store.refresh()
        return [each.version for each in self._store.state.versions(subject)]

    def version(self, subject: str, number: str, body: Body, query: Body) -> Any:
        self._store.refresh()
        return self._store.state.version(subject, number).to_json()

    def version_text(self, subject: str, number: str, body: Body, query: Body) -> Any:
        return self._store.state.version(subject, number).schema.plain

    def register(self, subject: str, body: Body, query: Body) -> Any:
        schema = _schema(body)
        self._store.refresh()
        state = self._store.state
        for each in state.live(subject):
            if each.schema.canonical == schema.canonical:
                return {"id": each.id}
        check_valid(schema)
        self._check_references(schema)
        old = [each.schema for each in state.live(subject)]
        if found := incompatibilities(schema, old, state.level(subject)):
            raise RegistryError(
                409,
                "Schema being registered is incompatible with an earlier schema for subject"
                f' "{subject}", details: {found}',
            )
        new = state.next_version(subject, schema)
        self._store.write((new.key, new.value))
        return {"id": new.id}

    def lookup(self, subject: str, body: Body, query: Body) -> Any:
        self._store.refresh()
        return self._store.state.lookup(subject, _schema(body)).to_json()

    def _check_references(self, schema: Schema) -> None:
        for name, subject, version in schema.references:
            try:
                self._store.state.version(subject, str(version))
            except RegistryError:
                raise RegistryError(42201, f"Invalid schema: no reference {name}") from None

    def delete_subject(self, subject: str, body: Body, query: Body) -> Any:
        self._store.refresh()
        if query.get("permanent") == "true":
            found = sorted(self._store.state.subjects.get(subject, {}).values(), key=_number)
            if not found:
                raise RegistryError(40401, f"Subject '{subject}' not found.")
            if any(not each.deleted for each in found):
                raise RegistryError(
                    40405, f"Subject '{subject}' was not deleted first before being permanently"
                    " deleted",
                )  # fmt: skip
            self._store.write(*((each.key, None) for each in found))
        else:
            found = self._store.state.versions(subject)
            self._store.write(*(_deleted(each) for each in found))
        return [each.version for each in found]

    def delete_version(self, subject: str, number: str, body: Body, query: Body) -> Any:
        self._store.refresh()
        found = self._store.state.version(subject, number)
        self._store.write(_deleted(found))
        return found.version

    # -- compatibility -------------------------------------------------------

    def compatible(self, subject: str, number: str, body: Body, query: Body) -> Any:
        schema = _schema(body)
        check_valid(schema)
        state = self._store.state
        level = state.level(subject)
        found = incompatibilities(schema, [state.version(subject, number).schema], level)
        return _verdict(found, query)

    def compatible_with_all(self, subject: str, body: Body, query: Body) -> Any:
        schema = _schema(body)
        check_valid(schema)
        old = [each.schema for each in self._store.state.live(subject)]
        return _verdict(incompatibilities(schema, old, self._store.state.level(subject)), query)

    def config(self, body: Body, query: Body) -> Any:
        return {"compatibilityLevel": self._store.state.levels.get(None) or "BACKWARD"}

    def subject_config(self, subject: str, body: Body, query: Body) -> Any:
        state = self._store.state
        if subject not in state.levels and query.get("defaultToGlobal") != "true":
            raise RegistryError(
                40408, f"Subject '{subject}' does not have subject-level compatibility configured"
            )
        return {"compatibilityLevel": state.level(subject)}

    def set_config(self, body: Body, query: Body) -> Any:
        return self._set_level(None, body)

    def set_subject_config(self, subject: str, body: Body, query: Body) -> Any:
        return self._set_level(subject, body)

    def delete_config(self, subject: str, body: Body, query: Body) -> Any:
        level = self._store.state.level(subject)
        key, _ = config_record(subject, level)
        self._store.write((key, None))
        return {"compatibilityLevel": level}

    def _set_level(self, subject: str | None, body: Body) -> Any:
        level = str(body.get("compatibility", "")).upper()
        if level not in LEVELS:
            raise RegistryError(
                42203, f"Invalid compatibility level. Valid values are {', '.join(LEVELS)}"
            )
        self._store.write(config_record(subject, level))
        return {"compatibility": level}


def _verdict(found: list[str], query: Body) -> Any:
    more = {"messages": found} if query.get("verbose") == "true" else {}
    return {"is_compatible": not found, **more}


def _number(version: Version) -> int:
    return version.version


def _deleted(found: Version) -> tuple[str, str]:
    gone = Version(found.subject, found.version, found.id, found.schema, deleted=True)
    return gone.key, gone.value


def _parsed(body: bytes) -> Body:
    try:
        found = json.loads(body) if body else {}
    except ValueError:
        raise RegistryError(400, "the request is not JSON") from None
    if not isinstance(found, dict):
        raise RegistryError(400, "the request is not a JSON object")
    return found


def _schema(body: Body) -> Schema:
    text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not text:
        raise RegistryError(42201, "Invalid schema: it is empty")
    if kind not in TYPES:
        raise RegistryError(42201, f"Invalid schema: unknown type {kind}")
    try:
        references = tuple(
            (each["name"], each["subject"], int(each["version"]))
            for each in body.get("references") or ()
        )
    except (TypeError, KeyError, ValueError):
        raise RegistryError(42201, "Invalid schema: a reference lacks a field") from None
    return Schema(text, kind, references)


_NAME: Final = "([^/]+)"
_ROUTES: Final[tuple[tuple[str, re.Pattern[str], Handler], ...]] = tuple(
    (verb, re.compile(path), handler)
    for verb, path, handler in (
        ("GET", "/", RegistryApi.root),
        ("GET", "/schemas/types", RegistryApi.types),
        ("GET", r"/schemas/ids/(\d{1,10})", RegistryApi.schema),
        ("GET", r"/schemas/ids/(\d{1,10})/schema", RegistryApi.schema_text),
        ("GET", r"/schemas/ids/(\d{1,10})/versions", RegistryApi.schema_versions),
        ("GET", "/subjects", RegistryApi.subjects),
        ("POST", f"/subjects/{_NAME}", RegistryApi.lookup),
        ("DELETE", f"/subjects/{_NAME}", RegistryApi.delete_subject),
        ("GET", f"/subjects/{_NAME}/versions", RegistryApi.versions),
        ("POST", f"/subjects/{_NAME}/versions", RegistryApi.register),
        ("GET", f"/subjects/{_NAME}/versions/{_NAME}", RegistryApi.version),
        ("GET", f"/subjects/{_NAME}/versions/{_NAME}/schema", RegistryApi.version_text),
        ("DELETE", f"/subjects/{_NAME}/versions/{_NAME}", RegistryApi.delete_version),
        ("POST", f"/compatibility/subjects/{_NAME}/versions/{_NAME}", RegistryApi.compatible),
        ("POST", f"/compatibility/subjects/{_NAME}/versions", RegistryApi.compatible_with_all),
        ("GET", "/config", RegistryApi.config),
        ("PUT", "/config", RegistryApi.set_config),
        ("GET", f"/config/{_NAME}", RegistryApi.subject_config),
        ("PUT", f"/config/{_NAME}", RegistryApi.set_subject_config),
        ("DELETE", f"/config/{_NAME}", RegistryApi.delete_config),
    )
)
