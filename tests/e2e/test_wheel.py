"""The wheel, installed elsewhere, does the whole job from there."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import Finished, brief, environment, write_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel was installed into; dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = (folder / "dist").glob("*.whl")
    names = ZipFile(wheel).namelist()
    shipped = ["templates/report.md.j2", "schemas/experiment.schema.json", "specs/ngram-spec.yaml"]
    shipped += [f"schemas/vllm-serve/{version}.json" for version in ("0.26.0", "0.32.0", "0.33.0")]
    for name in shipped:
        assert f"runner/_data/{name}" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return target


def test_an_experiment_runs_from_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, brief, scale=0.02)
    env = {**environment(), "PYTHONPATH": str(installed)}
    where = [sys.executable, "-c", "import runner; print(runner.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout
    assert Path(found.strip()).is_relative_to(installed)
    script = installed / "bin" / "run"
    assert os.access(script, os.X_OK)
    ended = subprocess.run(
        [sys.executable, str(script), spec.name], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    finished = Finished(ended.returncode, ended.stdout, ended.stderr, tmp_path)
    assert finished.code == 0, ended.stdout + ended.stderr
    assert finished.report.startswith("# small")
    commands = [one.launched.command for one in finished.record.engines if one.launched is not None]
    assert commands and all("runner.simulator.__main__" in words for words in commands)
    logs = list((finished.directory / "artifacts").glob("*/engine.log"))
    assert len(logs) == 2


def test_the_schema_comes_from_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    env = {**environment(), "PYTHONPATH": str(installed)}
    ended = subprocess.run(
        [sys.executable, "-m", "runner", "schema"], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    assert ended.stdout == (installed / "runner" / "_data" / "schemas" / "experiment.schema.json").read_bytes()
