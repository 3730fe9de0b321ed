"""The contract that packages are imported through their interfaces, on a graph made for it."""

import pytest

MODULES = [
    "p",
    "p.a",
    "p.a.x",
    "p.a.y",
    "p.a.deep",
    "p.a.deep.z",
    "p.b",
    "p.b.__main__",
    "p.errors",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("p.b", "p.a", True),
        ("p.b", "p.a.x", False),
        ("p.b", "p.a.deep.z", False),
        ("p.a", "p.a.x", True),
        ("p.a", "p.a.deep", True),
        ("p.a", "p.a.deep.z", False),
        ("p.a.x", "p.a.y", True),
        ("p.a.x", "p.a.deep", True),
        ("p.a.x", "p.a.deep.z", False),
        ("p.a.deep.z", "p.a.x", True),
        ("p.a.x", "p.a", False),
        ("p.a.x", "p.errors", True),
        ("p.b.__main__", "p.b", True),
        ("p", "p.a", True),
        ("p", "p.a.x", False),
    ],
)
def test_packages_are_imported_through_their_interfaces(
    importer: str, imported: str, allowed: bool
) -> None:
    from grimp import ImportGraph

    from tests.interfaces_contract import forbidden_imports

    graph = ImportGraph()
    for module in MODULES:
        graph.add_module(module)
    graph.add_import(importer=importer, imported=imported)
    assert list(forbidden_imports(graph, "p")) == ([] if allowed else [(importer, imported)])
