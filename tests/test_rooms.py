"""The rooms of the package: each module has a layer, few lie loose at the top, and the upper rooms use public names."""

import ast
import graphlib
import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "eiv"
TOOLS = ("eiv.io", "eiv.plotting", "eiv.extras", "eiv.validation")  # that the upper rooms share
UPPER = ("experiments", "report", "cli")


def test_at_most_eight_modules_lie_at_the_top():
    loose = sorted(path.stem for path in PACKAGE.glob("*.py"))
    assert len(loose) <= 8, loose


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def inside(room):
    """The modules of a room by their own names."""
    return {path.stem for path in (PACKAGE / room).iterdir() if not path.name.startswith("__")}


def test_every_module_has_a_layer():
    """import-linter asks for the rooms themselves; the modules of `io` and `training` stand in several layers."""
    contract = contracts()[0]
    placed = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    assert contract["exhaustive"]
    for room in contract["exhaustive_ignores"]:
        assert inside(room) == {name.removeprefix(f"{room}.") for name in placed if name.startswith(f"{room}.")}


def test_upper_rooms_know_settings_and_diagnostics_of_the_training_alone():
    forbidden = {name.removeprefix("eiv.training.") for name in contracts()[1]["forbidden_modules"]}
    assert inside("training") - forbidden == {"settings", "diagnostics"}


@pytest.mark.parametrize("room", UPPER)
def test_upper_rooms_use_public_names(room):
    allowed = (*TOOLS, *(f"eiv.{upper}" for upper in UPPER))
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "eiv":
                continue
            if any(node.module == name or node.module.startswith(f"{name}.") for name in allowed):
                continue
            public = [*importlib.import_module(node.module).__all__, "validation"]  # a tool, of `eiv` itself
            unknown = [each.name for each in node.names if each.name not in public]
            assert not unknown, f"{path}: {node.module} has no public name {unknown}"


def test_pages_and_commands_know_fitted_models():
    """The estimators are for `eiv fit`; whatever uses a model takes a `FittedModel`."""
    fitting = {"fit.py", "classfit.py", "options.py"}
    for path in [*(PACKAGE / "report").rglob("*.py"), *(PACKAGE / "cli").rglob("*.py")]:
        imports = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if hasattr(node, "names")]
        named = {name.name for node in imports if isinstance(node, ast.ImportFrom) for name in node.names}
        assert path.name in fitting or not named & {"EiVRegressor", "EiVClassifier"}, path


def imports_of(path, name, modules):
    """The modules of the package that one imports, also inside of functions; for type checkers alone left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{each.name}" for each in node.names]
        for found in named:
            place = found if found in modules else found.rpartition(".")[0]
            if place in modules and place != name:
                yield place


def test_no_import_inside_of_a_function_hides_a_cycle():
    """Such imports make the start fast, or wait for an extra; import-linter sees rooms, not modules of one room."""
    parts = {path.relative_to(PACKAGE.parent).with_suffix("").parts: path for path in PACKAGE.rglob("*.py")}
    modules = {".".join(each[:-1] if each[-1] == "__init__" else each): path for each, path in parts.items()}
    graph = {name: set(imports_of(path, name, modules)) - {"eiv"} for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_private_members_are_those_of_the_own_room():
    """ruff lets a line with `noqa: SLF001` use a private member; it is one of torch's, or defined in the same room."""
    defined = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
                methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
                for name in (*fields, *methods):
                    defined.setdefault(name, set()).add(room)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.setdefault(node.attr, set()).add(room)
    for path in PACKAGE.rglob("*.py"):
        room, lines = path.relative_to(PACKAGE).parts[0], path.read_text(encoding="utf-8").splitlines()
        for line in (line for line in lines if "noqa: SLF001" in line):
            for name in re.findall(r"\.(_[a-z]\w*)", line):
                assert room in defined.get(name, {room}), f"{path}: {line.strip()}"


def test_functions_fit_on_a_screen():
    """At most 60 lines, arguments and docstring not counted: those of a command are its options with their help."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert length <= 60, f"{path}: {node.name} has {length} lines"
