"""The schemas of a registry: subjects, versions and ids, replayed from the topic `_schemas`.

The records are those of Confluent's registry: the key says what a record is about, a null value
deletes it. So either registry reads the topic of the other.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.base.errors import BarnabasError

DEFAULT_LEVEL: Final = "BACKWARD"
LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL",
    "FULL_TRANSITIVE",
)  # fmt: skip
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")


class RegistryError(BarnabasError):
    """A request that the registry refuses, with the code of Confluent's API."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


@dataclass(frozen=True)
class Schema:
    """The text of a schema, its type, and the schemas that it refers to."""

    text: str
    type: str = "AVRO"
    references: tuple[tuple[str, str, int], ...] = ()

    @property
    def canonical(self) -> tuple[str, str, tuple[tuple[str, str, int], ...]]:
        """Equal for schemas that differ only in white space."""
        if self.type == "PROTOBUF":
            return self.text, self.type, self.references
        try:
            return json.dumps(json.loads(self.text)), self.type, self.references
        except ValueError:
            return self.text, self.type, self.references

    @property
    def plain(self) -> Any:
        """The schema itself: a text for Protobuf, else its JSON."""
        return self.text if self.type == "PROTOBUF" else json.loads(self.text)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in self.references
            ]
        return found


@dataclass(frozen=True)
class Version:
    """A schema under a subject; a deleted one keeps its number and its id."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject, "version": self.version, "id": self.id,
            **self.schema.to_json(),
        }  # fmt: skip

    @property
    def key(self) -> str:
        return _text(
            {"keytype": "SCHEMA", "subject": self.subject, "version": self.version, "magic": 1}
        )

    @property
    def value(self) -> str:
        return _text({**self.to_json(), "deleted": self.deleted})


def config_record(subject: str | None, level: str) -> tuple[str, str]:
    """The key and value that set a compatibility level."""
    key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
    return _text(key), _text({"compatibilityLevel": level})


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))


@dataclass
class RegistryState:
    """The schemas of the records so far."""

    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    levels: dict[str | None, str] = field(default_factory=dict)
    # Also of schemas that are gone: values in topics still name them.
    greatest_id: int = 0

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Replay one record of the topic. Records that are not understood are left out."""
        try:
            what = json.loads(key or b"{}")
            content = None if value is None else json.loads(value)
            if what.get("keytype") == "SCHEMA":
                self._apply_schema(what["subject"], int(what["version"]), content)
            elif what.get("keytype") == "CONFIG":
                self._apply_level(what.get("subject"), content)
            elif what.get("keytype") == "DELETE_SUBJECT" and content:
                self._delete(content["subject"], int(content["version"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return

    def _apply_schema(self, subject: str, version: int, content: Any) -> None:
        versions = self.subjects.setdefault(subject, {})
        if content is None:
            versions.pop(version, None)
            return
        references = tuple(
            (each["name"], each["subject"], int(each["version"]))
            for each in content.get("references") or ()
        )
        schema = Schema(content["schema"], content.get("schemaType") or "AVRO", references)
        deleted = bool(content.get("deleted"))
        versions[version] = Version(subject, version, int(content["id"]), schema, deleted)
        self.greatest_id = max(self.greatest_id, versions[version].id)

    def _apply_level(self, subject: str | None, content: Any) -> None:
        if content is None:
            self.levels.pop(subject, None)
        else:
            self.levels[subject] = content["compatibilityLevel"]

    def _delete(self, subject: str, last: int) -> None:
        versions = self.subjects.get(subject, {})
        for number, each in versions.items():
            if number <= last:
                versions[number] = Version(subject, number, each.id, each.schema, True)

    # -- what is asked -------------------------------------------------------

    def live(self, subject: str) -> list[Version]:
        """The versions of a subject that are not deleted, oldest first."""
        found = self.subjects.get(subject, {})
        return [each for _, each in sorted(found.items()) if not each.deleted]

    def versions(self, subject: str) -> list[Version]:
        """Raises RegistryError if the subject has no version."""
        found = self.live(subject)
        if not found:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, number: str) -> Version:
        """A version by its number, or `latest`. Raises RegistryError."""
        found = self.versions(subject)
        if number in ("latest", "-1"):
            return found[-1]
        if not number.isdecimal() or int(number) < 1:
            raise RegistryError(
                42202,
                f"The specified version '{number}' is not a valid version id. Allowed values are"
                ' between [1, 2^31-1] and the string "latest"',
            )
        for each in found:
            if each.version == int(number):
                return each
        raise RegistryError(40402, f"Version {number} not found.")

    def by_id(self, number: int) -> list[Version]:
        """All versions with this id, also deleted ones. Raises RegistryError if there are none."""
        found = [
            each
            for versions in self.subjects.values()
            for each in versions.values()
            if each.id == number
        ]
        if not found:
            raise RegistryError(40403, f"Schema {number} not found")
        return found

    def lookup(self, subject: str, schema: Schema) -> Version:
        """Raises RegistryError if the subject does not have the schema."""
        for each in reversed(self.versions(subject)):
            if each.schema.canonical == schema.canonical:
                return each
        raise RegistryError(40403, "Schema not found")

    def level(self, subject: str) -> str:
        return self.levels.get(subject) or self.levels.get(None) or DEFAULT_LEVEL

    def next_version(self, subject: str, schema: Schema) -> Version:
        """The version under which a new schema is registered; its id is the old one if known."""
        numbers = self.subjects.get(subject, {})
        known = [
            each
            for versions in self.subjects.values()
            for each in versions.values()
            if each.schema.canonical == schema.canonical
        ]
        number = known[0].id if known else self.greatest_id + 1
        return Version(subject, max(numbers, default=0) + 1, number, schema)
