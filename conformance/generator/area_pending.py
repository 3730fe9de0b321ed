"""Area ``pending``: which of two copies of metadata counts while a change is being completed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.arrays import ABSENT, Array, declaration
from conformance.generator.by_digest import checksum
from conformance.generator.case import Case, failure

AREA = "pending"
_SECTION = "consolidated-metadata"
_OLD = Array(values=(101, 102, 103, 104))
_NEW = Array(shape=(6,), values=(201, 202, 203, 204, 205, 206))
_OTHER = Array(values=(301, 302, 303, 304))
_STATES = {"old": _OLD, "new": _NEW, "other": _OTHER}
_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
_UNKNOWN = f"sha256:{'0' * 64}"

type Node = Mapping[str, Any]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _behind()
    yield from _removed()
    yield from _not_behind()
    yield from _several()
    yield from _below_the_root()
    yield from _of_other_forms()
    yield from _validators()


def _node(state: str, *, native: bool = False) -> dict[str, Any]:
    """Return the metadata of an array in a state, whose manifest has the name of it."""
    transformers = None if native else [declaration({"manifest": f"./{state}.json"})]
    return _STATES[state].metadata(transformers)


def _root(copies: Mapping[str, Node], pending: Any) -> dict[str, Any]:
    consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(copies)}
    if pending is not ABSENT:
        consolidated["pending"] = pending
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {},
        "consolidated_metadata": consolidated,
    }


class _Hierarchy(Case):
    """A hierarchy with arrays in one of several states; all manifests and sources are there."""

    def node(self, path: str, own: Node | None) -> _Hierarchy:
        """Add an array with these metadata of its own, if there are any."""
        for state, array in _STATES.items():
            entries, source = array.lay_out(f"{state}.bin")
            self.array(path, array)
            self.put(f"{path}/{state}.json", entries).put(f"{path}/{state}.bin", source)
        if own is None:
            self.without(f"hierarchy/{path}/zarr.json")
        else:
            self.put(f"{path}/zarr.json", own)
        return self

    def root(self, copies: Mapping[str, Node], pending: Any, path: str = "") -> _Hierarchy:
        """Write the metadata of the root, or of another group with copies."""
        self.put(f"{path}/zarr.json".lstrip("/"), _root(copies, pending))
        return self

    def reads_as(self, state: str, path: str = "a") -> _Hierarchy:
        """Expect the values of a state."""
        self.ask("read", {"array": path, "selection": None}, self.of(state, path))
        return self

    def of(self, state: str, path: str = "a") -> dict[str, Any]:
        """Return the expected answer to a read."""
        self._arrays[path] = _STATES[state]
        return self.values(path)


def _case(name: str, description: str, **options: Any) -> _Hierarchy:
    needs = [] if "lacks" in options else ["consolidated"]
    return _Hierarchy(f"{AREA}/{name}", _SECTION, description, needs=needs, **options)


def _both(name: str, description: str, own: str = "") -> Iterator[_Hierarchy]:
    """Yield a case for readers of copies, and one for readers of own metadata."""
    yield _case(name, description)
    yield _case(f"{name}-own-metadata", own or description, consolidated=False)


def _behind() -> Iterator[Case]:
    old, new = _node("old"), _node("new")
    for case in _both(
        "behind",
        "The root has the new state of the array, whose own zarr.json is not written yet. To a "
        "reader of copies, the copy counts.",
        "The array's own zarr.json is the one that is about to be replaced: it is behind, and the "
        "copy counts in its place.",
    ):
        yield case.node("a", old).root({"a": new}, {"a": checksum(old)}).reads_as("new")
    yield (
        _case(
            "behind-to-a-reader-of-own-metadata-alone",
            "A reader that knows no consolidated metadata reads the state before the change, as a "
            "whole.",
            lacks=["consolidated"],
        )
        .node("a", old)
        .root({"a": new}, {"a": checksum(old)})
        .reads_as("old")
    )
    for case in _both(
        "created",
        "The array is in the root's copies, and has no zarr.json of its own yet, as pending says: "
        "it is there.",
    ):
        yield case.node("a", None).root({"a": new}, {"a": None}).reads_as("new")
    for case in _both(
        "native-behind",
        "What is said of arrays with a manifest holds for native ones: the copy of one that grew "
        "counts, where its own zarr.json is behind.",
    ):
        own, copy = _node("old", native=True), _node("new", native=True)
        case.node("a", own).root({"a": copy}, {"a": checksum(own)})
        for index in _NEW.indices():
            case.put(f"a/{_NEW.key(index)}", _NEW.chunk(index))
        yield case.reads_as("new")
    for case in _both(
        "native-before",
        "The array was native before the change: where its own zarr.json is behind, the "
        "declaration in the copy counts, and no native chunk.",
    ):
        own = _node("old", native=True)
        case.node("a", own).root({"a": new}, {"a": checksum(own)})
        for index in _OLD.indices():
            case.put(f"a/{_OLD.key(index)}", _OLD.chunk(index))
        yield case.reads_as("new")


def _removed() -> Iterator[Case]:
    old = _node("old")
    for name, own in (("removed", old), ("removed-and-gone", None)):
        for case in _both(
            name,
            "The change removes the array: pending names it, and the copies do not. It does not "
            "exist, whether or not its own zarr.json is still there.",
        ):
            case.node("a", own).root({}, {"a": checksum(old)})
            yield case.refuses("zarr_error", None)
    yield (
        _case(
            "removed-to-a-reader-of-own-metadata-alone",
            "A reader that knows no consolidated metadata reads the array that is about to be "
            "removed, as a whole.",
            lacks=["consolidated"],
        )
        .node("a", old)
        .root({}, {"a": checksum(old)})
        .reads_as("old")
    )


def _not_behind() -> Iterator[Case]:
    old, new, other = _node("old"), _node("new"), _node("other")
    for case in _both(
        "completed",
        "The array's own zarr.json is the new one, and pending still names it: the change is "
        "complete, and what is left of it does no harm.",
    ):
        yield case.node("a", new).root({"a": new}, {"a": checksum(old)}).reads_as("new")
    yield (
        _case(
            "created-and-completed-own-metadata",
            "The array has its own zarr.json, and pending still says that it has none.",
            consolidated=False,
        )
        .node("a", new)
        .root({"a": new}, {"a": None})
        .reads_as("new")
    )
    for name, pending in (
        ("written-since", {"a": checksum(old)}),
        ("written-since-its-creation", {"a": None}),
        ("not-named", {"b": checksum(other)}),
    ):
        description = (
            "The array's own zarr.json is neither the copy nor what pending names: somebody wrote "
            "it since. To a reader of copies, the copy counts."
        )
        case = _case(name, description)
        yield case.node("a", other).root({"a": new}, pending).reads_as("new")
        description = (
            "The array's own zarr.json is neither the copy nor what pending names: somebody wrote "
            "it since. It is not behind, and counts; or the reader refuses what is contradictory."
        )
        case = _case(f"{name}-own-metadata", description, consolidated=False)
        case.node("a", other).root({"a": new}, pending)
        yield _either(case, "other")
    case = _case(
        "gone",
        "The array's own zarr.json is gone, and pending names one that was there. To a reader of "
        "copies, the copy counts; or the reader refuses what is contradictory.",
    )
    yield _either(case.node("a", None).root({"a": new}, {"a": checksum(old)}), "new")
    case = _case(
        "gone-own-metadata",
        "The array's own zarr.json is gone, and is not behind: to a reader of own metadata, there "
        "is no such array, or it refuses what is contradictory.",
        consolidated=False,
    )
    case.node("a", None).root({"a": new}, {"a": checksum(old)})
    expected = [failure("zarr_error", None), failure("invalid_configuration", "declaration")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": expected})
    case = _case(
        "written-since-its-removal-own-metadata",
        "The change removed the array, and somebody has written one of its name since. That is "
        "not the one that pending names: it counts.",
        consolidated=False,
    )
    yield case.node("a", other).root({}, {"a": checksum(old)}).reads_as("other")


def _either(case: _Hierarchy, state: str) -> Case:
    """Expect values, or that the reader refuses two copies that declare different things."""
    expected = [case.of(state), failure("invalid_configuration", "declaration")]
    return case.ask("read", {"array": "a", "selection": None}, {"any_of": expected})


def _several() -> Iterator[Case]:
    old, new = _node("old"), _node("new")
    for case in _both(
        "one-of-two-behind",
        "Of two arrays of one change, one is completed, and one is behind: both are read in the "
        "state after it.",
    ):
        case.node("a", old).node("b", new)
        case.root({"a": new, "b": new}, {"a": checksum(old), "b": checksum(old)})
        yield case.reads_as("new").reads_as("new", "b")
    yield (
        _case(
            "one-of-two-behind-to-a-reader-of-own-metadata-alone",
            "A reader that knows no consolidated metadata reads each array as a whole, one before "
            "the change and one after it.",
            lacks=["consolidated"],
        )
        .node("a", old)
        .node("b", new)
        .root({"a": new, "b": new}, {"a": checksum(old), "b": checksum(old)})
        .reads_as("old")
        .reads_as("new", "b")
    )
    for case in _both(
        "behind-in-a-group",
        "pending names nodes by their paths, as the copies are named: an array in a group, too.",
    ):
        case.node("g/a", old)
        case.root({"g": _GROUP, "g/a": new}, {"g/a": checksum(old)})
        yield case.reads_as("new", "g/a")
    for case in _both(
        "not-behind-under-another-path",
        "pending says nothing of an array whose path merely ends with a name in it.",
    ):
        case.node("g/a", new)
        case.root({"g": _GROUP, "g/a": new}, {"a": checksum(new)})
        yield case.reads_as("new", "g/a")


def _below_the_root() -> Iterator[Case]:
    old, new, other = _node("old"), _node("new"), _node("other")
    for name, own, copies, pending, state, description in (
        ("behind", old, {"a": new}, {"a": checksum(old)}, "new",
         "the array's own zarr.json is behind the group's copy, which counts in its place."),
        ("created", None, {"a": new}, {"a": None}, "new",
         "the array has no zarr.json of its own yet, as the group's pending says: it is there."),
        ("removed", old, {}, {"a": checksum(old)}, None,
         "the change removes the array: its own zarr.json is still there, and it does not exist."),
        ("completed", new, {"a": new}, {"a": checksum(old)}, "new",
         "the array's own zarr.json is the new one, and what is left of the change does no harm."),
    ):  # fmt: skip
        description = f"Only a group below the root has copies: {description}"
        for case in _both(f"{name}-below-the-root", description):
            case.put("zarr.json", _GROUP).node("g/a", own).root(copies, pending, "g")
            if state is None:
                yield case.refuses("zarr_error", None, "g/a")
            else:
                yield case.reads_as(state, "g/a")
    for case in _both(
        "behind-the-root-and-a-group",
        "The root and a group below it have copies, and the array's own zarr.json is behind both: "
        "the topmost copy counts.",
    ):
        copies = {"g": _GROUP, "g/a": new}
        case.node("g/a", old).root(copies, {"g/a": checksum(old)})
        yield case.root({"a": other}, {"a": checksum(old)}, "g").reads_as("new", "g/a")
    case = _case(
        "of-another-form-below-the-root-validate",
        "A pending that is no object: a validator reports it of the group whose metadata it is in.",
    )
    case.put("zarr.json", _GROUP).node("g/a", new).root({"a": new}, ["a"], "g")
    yield case.reports("invalid_configuration", path="g")


def _of_other_forms() -> Iterator[Case]:
    old, new = _node("old"), _node("new")
    right = checksum(old)
    for name, pending, description in (
        ("in-capitals", {"a": right.upper().replace("SHA", "sha")}, "Its digits are capitals"),
        ("without-an-algorithm", {"a": right.removeprefix("sha256:")}, "It names no algorithm"),
        ("of-another-algorithm", {"a": f"md5:{'0' * 32}"}, "Its algorithm is not sha256"),
        ("cut-off", {"a": right[:23]}, "It has some digits only"),
        ("true", {"a": True}, "It is no text"),
        ("a-list", ["a"], "pending is a list"),
        ("null", None, "pending is null"),
    ):
        case = _case(
            f"of-another-form-{name}",
            f"{description}. A reader of copies need not look at it, or refuses it.",
        )
        case.node("a", old).root({"a": new}, pending)
        yield _either(case, "new")
        case = _case(
            f"of-another-form-{name}-own-metadata",
            f"{description}: nobody can tell whether the array's own zarr.json is behind.",
            consolidated=False,
        )
        case.node("a", old).root({"a": new}, pending)
        yield case.refuses("invalid_configuration", "declaration")
        case = _case(
            f"of-another-form-{name}-validate",
            f"{description}: a validator reports it of the root, whose metadata it is in.",
        )
        case.node("a", new).root({"a": new}, pending)
        yield case.reports("invalid_configuration", path="")


def _validators() -> Iterator[Case]:
    old, new = _node("old"), _node("new")
    broken = _NEW.metadata([declaration({"manifest": "./new.json", "compression": "zip"})])
    lost = _NEW.metadata([declaration({"manifest": "./lost.json"})])
    invalid = "invalid_configuration"
    for name, own, copies, pending, found, description in (
        ("behind", old, {"a": new}, {"a": checksum(old)}, [],
         "A node's own metadata that are behind contradict nothing: a validator reports nothing."),
        ("created", None, {"a": new}, {"a": None}, [],
         "A node that is being created, as pending says, contradicts nothing."),
        ("removed", old, {}, {"a": checksum(old)}, [],
         "A node that is being removed, as pending says, contradicts nothing."),
        ("broken-and-behind", broken, {"a": new}, {"a": checksum(broken)}, [],
         "What is invalid in metadata that are behind is being replaced: it is not reported."),
        ("broken-and-removed", lost, {}, {"a": checksum(lost)}, [],
         "What is invalid in metadata that are being removed is not reported."),
        ("broken-copy-of-what-is-behind", old, {"a": broken}, {"a": checksum(old)}, [invalid],
         "The copy counts, and is checked: a validator reports what is invalid in it."),
        ("lost-document-of-what-is-behind", old, {"a": lost}, {"a": checksum(old)},
         ["manifest_not_found"],
         "The copy counts: the documents that it declares are checked, and one is lost."),
        ("written-since", old, {"a": new}, {"a": _UNKNOWN}, [invalid],
         "Own metadata that are not behind, and declare something else, contradict the copy."),
        ("written-since-its-creation", old, {"a": new}, {"a": None}, [invalid],
         "Own metadata where pending says that there are none contradict the copy."),
        ("gone", None, {"a": new}, {"a": checksum(old)}, [invalid],
         "An array whose own metadata are gone, and were to be replaced, is only in the copies."),
        ("only-in-the-copies", None, {"a": new}, ABSENT, [],
         "What only the copies describe, and pending does not name, contradicts nothing."),
        ("lost-document-of-what-is-only-in-the-copies", None, {"a": lost}, ABSENT,
         ["manifest_not_found"],
         "An array that only the copies describe is checked as they describe it."),
    ):  # fmt: skip
        case = _case(f"{name}-validate", description).node("a", own).root(copies, pending)
        yield case.reports(*found)
    for name, own, copies, pending, found, description in (
        ("behind", old, {"a": new}, {"a": checksum(old)}, [],
         "own metadata that are behind contradict nothing."),
        ("removed", lost, {}, {"a": checksum(lost)}, [],
         "what is invalid in metadata that are being removed is not reported."),
        ("broken-copy-of-what-is-behind", old, {"a": broken}, {"a": checksum(old)}, [invalid],
         "the copy counts, and is checked."),
        ("gone", None, {"a": new}, {"a": checksum(old)}, [invalid],
         "an array whose own metadata are gone, and were to be replaced, is only in the copies."),
    ):  # fmt: skip
        description = f"Only a group below the root has copies: {description}"
        case = _case(f"{name}-below-the-root-validate", description)
        case.put("zarr.json", _GROUP).node("g/a", own).root(copies, pending, "g")
        yield case.reports(*found, path="g/a")
