"""Wide dense data and a million stored values: fits take seconds, and little memory beside the data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "estimators_memory.py"
WIDE, SPARSE = "dense 100 x 100,000 float32", "CSR 3,000 x 8,000, 10^6 stored"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.skipif(not SCRIPT.exists(), reason="the benchmarks are not beside the tests")
@pytest.mark.parametrize("data", [WIDE, SPARSE])
@pytest.mark.parametrize("estimator", ["SBLRegressor()", "WeightedLasso(alpha=0.1)"])
def test_memory_beside_the_data(data, estimator):
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(SCRIPT), "--alone", data, estimator]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *_, data_size, beside, _, seconds, nonzero = done.stdout.strip(" |\n").split(" | ")
    allowed = 0.5 * float(data_size) + 1.5  # in megabytes; the rest is what an interpreter may do meanwhile
    assert float(beside) <= allowed, done.stdout
    assert float(seconds) < 20
    assert 2 <= int(nonzero) < 100
