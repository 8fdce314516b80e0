"""The layers import one way only, and importing the package stays quick."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW_TO_IMPORT = ("sklearn", "matplotlib", "pandas", "cvxpy", "numba", "joblib", "astropy", "celer", "skglm")


def run(code, **variables):
    """Run Python code in a fresh interpreter that finds the package where this one does."""
    import fastsbl

    path = os.pathsep.join([str(Path(fastsbl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def loaded_after(statement):
    """Names of the top-level packages that a statement has imported."""
    names = "sorted({name.partition('.')[0] for name in sys.modules})"
    done = run(f"import json, sys\n{statement}\nprint(json.dumps({names}))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_layers():
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("the contracts live in pyproject.toml, which is not beside the tests")
    done = run("from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_layers_contract_can_fail(tmp_path):
    """The contracts as they stand do catch a layer that imports the one above it."""
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("the contracts live in pyproject.toml, which is not beside the tests")
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract for contract in settings["contracts"] if contract["type"] == "layers")["layers"]
    package = tmp_path / "fastsbl"
    names = [name.strip(" ()") for layer in layers for name in layer.split(":")]
    for name in names:
        folder = package / name.removeprefix("fastsbl.")
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "dictionary" / "__init__.py").write_text("import fastsbl.lasso\n", encoding="utf-8")
    config = tmp_path / "contracts.ini"
    listed = "\n    ".join(layers)
    config.write_text(
        "[importlinter]\nroot_package = fastsbl\n\n[importlinter:contract:1]\n"
        f"name = layers\ntype = layers\nlayers =\n    {listed}\n",
        encoding="utf-8",
    )
    done = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from importlinter.cli import lint_imports_command\n"
        f"lint_imports_command(['--no-cache', '--config', {str(config)!r}])",
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode != 0
    assert "fastsbl.dictionary is not allowed to import fastsbl.lasso" in done.stdout


def test_import_brings_nothing_slow():
    """`import fastsbl` alone loads none of the heavy packages: public names come when they are asked for."""
    loaded = loaded_after("import fastsbl")
    assert "fastsbl" in loaded
    assert not loaded.intersection(SLOW_TO_IMPORT)


@pytest.mark.parametrize("layer", ["dictionary", "screening", "lasso"])
def test_core_imports_no_optional_package(layer):
    loaded = loaded_after(f"import fastsbl.{layer}")
    assert "numpy" in loaded
    assert not loaded.intersection(SLOW_TO_IMPORT) - {"numba"}


def test_public_names_resolve():
    """Whatever the package lists, it gives; unknown names are refused as Python refuses them."""
    import fastsbl

    assert "." in fastsbl.__version__
    for name in getattr(fastsbl, "__all__", []):
        assert getattr(fastsbl, name) is not None
        assert name in dir(fastsbl)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = fastsbl.no_such_name


def test_import_writes_nothing_to_the_log():
    """Importing has no side effects: no logging set up, nothing printed."""
    done = run("import logging, fastsbl.lasso, fastsbl.imaging; print(len(logging.getLogger().handlers))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"
    assert done.stderr == ""
