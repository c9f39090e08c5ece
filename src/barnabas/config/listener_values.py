"""The security properties of one listener: `listener.name.<listener>.<key>` before `<key>`."""

from collections.abc import Mapping
from typing import Final

_PREFIX: Final = "listener.name."


class ListenerValues:
    """The texts in force for one listener; an empty name is none, so that only `<key>` counts."""

    def __init__(self, texts: Mapping[str, str], defaults: Mapping[str, str], name: str) -> None:
        self._texts = texts
        self._defaults = defaults
        self._prefix = f"{_PREFIX}{name.lower()}."

    def get(self, key: str) -> str | None:
        own = self.own(key)
        return own if own is not None else self._texts.get(key, self._defaults.get(key))

    def text(self, key: str) -> str:
        return self.get(key) or ""

    def own(self, key: str) -> str | None:
        """The value that is set for this listener alone."""
        return self._texts.get(self._prefix + key)

    def of_mechanism(self, mechanism: str, key: str) -> str | None:
        """The value of a SASL mechanism: the most special one that is set."""
        special = f"{mechanism.lower()}.{key}"
        for name in (self._prefix + special, special, self._prefix + key, key):
            if name in self._texts:
                return self._texts[name]
        return self._defaults.get(key)

    def all(self, *prefixes: str) -> dict[str, str]:
        """Every value whose key has one of these prefixes, by the key without the listener."""
        found = {key: text for key, text in self._texts.items() if key.startswith(prefixes)}
        for name, text in self._texts.items():
            key = name.removeprefix(self._prefix)
            if key != name and key.startswith(prefixes):
                found[key] = text
        return found
