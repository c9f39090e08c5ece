"""The embedded tree against a plain dict, through transactions, expiries and restarts."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.disk.disk import RealDisk
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.embedded.journal import Journal
from barnabas.znodes.tree import (
    ANY_VERSION,
    BadVersion,
    CheckVersion,
    CreateNode,
    DeleteNode,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
    ZnodeError,
)


class UnsyncedDisk(RealDisk):
    """A disk whose content survives a restart of the process."""

    def sync(self, path: str = "", /) -> None:
        pass

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        super().replace(path, data, sync=False, private=private)


@dataclass(frozen=True)
class Expected:
    data: bytes
    version: int = 0
    created: int = 0
    owner: int = 0


Model = dict[str, Expected]


def below(model: Model, path: str) -> list[str]:
    prefix = path.rstrip("/") + "/"
    names = (each[len(prefix) :] for each in model if each.startswith(prefix) and each != path)
    return sorted(name for name in names if "/" not in name)


def expect(model: Model, operation: Operation, owner: int) -> Model:
    """The model after one operation."""
    path = operation.path
    if isinstance(operation, CreateNode):
        parent = path.rpartition("/")[0] or "/"
        if parent not in model:
            raise NoNode(path)
        if model[parent].owner:
            raise NoChildrenForEphemerals(path)
        path += f"{model[parent].created:010d}" if operation.sequential else ""
        if path in model:
            raise NodeExists(path)
        parent_after = replace(model[parent], created=model[parent].created + 1)
        made = Expected(operation.data, owner=owner if operation.ephemeral else 0)
        return model | {parent: parent_after, path: made}
    if path not in model:
        raise NoNode(path)
    if operation.version not in (ANY_VERSION, model[path].version):
        raise BadVersion(path)
    match operation:
        case SetData(data=data):
            after = replace(model[path], data=data, version=model[path].version + 1)
            return model | {path: after}
        case DeleteNode():
            if below(model, path):
                raise NotEmpty(path)
            return {each: node for each, node in model.items() if each != path}
        case CheckVersion():
            return model


some_paths = st.sampled_from(["/a", "/b", "/a/c", "/a/d", "/b/c", "/a/c/e", "/b/c_", "/a/c_0"])
some_data = st.binary(max_size=6)
some_versions = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 2])
operations = st.one_of(
    st.builds(CreateNode, some_paths, some_data, st.booleans(), st.booleans()),
    st.builds(CreateNode, some_paths, some_data),
    st.builds(SetData, some_paths, some_data, some_versions),
    st.builds(DeleteNode, some_paths, some_versions),
    st.builds(CheckVersion, some_paths, some_versions),
)


class TreeAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="barnabas-znodes-")
        self.runner = asyncio.Runner()
        self.model: Model = {"/": Expected(b"")}
        self.zxid = 0
        self.open()

    def open(self) -> None:
        journal = Journal(UnsyncedDisk(self.folder), compact_after=300)
        self.tree = Tree.recover(journal)
        self.sessions: list[EmbeddedSession] = [self.tree.session(), self.tree.session()]

    @rule(which=st.integers(0, 1), wanted=st.lists(operations, min_size=1, max_size=4))
    def transaction(self, which: int, wanted: list[Operation]) -> None:
        session, after = self.sessions[which], self.model
        expected: type[ZnodeError] | None = None
        try:
            for operation in wanted:
                after = expect(after, operation, session.session_id)
        except ZnodeError as error:
            expected = type(error)
        found: type[ZnodeError] | None = None
        try:
            self.runner.run(session.multi(wanted))
        except ZnodeError as error:
            found = type(error)
        assert found is expected
        if expected is None:
            self.model = after
            self.zxid += 1

    @rule(which=st.integers(0, 1))
    def expiry(self, which: int) -> None:
        session = self.sessions[which]
        self.drop(session.session_id)
        self.runner.run(session.expire())
        self.runner.run(session.renew())

    @rule()
    def restart(self) -> None:
        # Not closed: the restart ends the sessions.
        self.drop(None)
        self.open()

    def drop(self, owner: int | None) -> None:
        kept = {
            path: node
            for path, node in self.model.items()
            if not node.owner or owner not in (None, node.owner)
        }
        self.zxid += kept != self.model
        self.model = kept

    @invariant()
    def the_tree_is_the_model(self) -> None:
        assert self.tree.nodes.zxid == self.zxid
        found = {
            path: Expected(node.data, node.version, node.created, node.owner)
            for path, node in self.tree.nodes
        }
        assert found == self.model
        for path in self.model:
            names = below(self.model, path)
            assert self.runner.run(self.sessions[0].children(path)) == names
            stat = self.tree.nodes[path].stat
            assert stat.num_children == len(names)
            assert stat.cversion == 2 * self.model[path].created - len(names)

    def teardown(self) -> None:
        self.runner.close()
        shutil.rmtree(self.folder)


TestTreeAgainstDict = TreeAgainstDict.TestCase
TestTreeAgainstDict.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
