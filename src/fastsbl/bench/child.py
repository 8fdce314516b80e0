"""One call in a process of its own: peak memory, and a time limit for what may take minutes.

Called as ``python -m fastsbl.bench.child TASK DATA SOLVER RATIO TOL QUICK``; prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["run_alone"]


def run_alone(
    task: str, data: str, solver: str, ratio: float, tol: float, *, quick: bool, limit: float
) -> dict[str, Any] | None:
    """Run one solver once in a fresh process; None if it took longer than ``limit`` seconds.

    Returns
    -------
    dict or None
        ``seconds``, ``value`` (gap or Loss), ``passes``, ``matrix`` and ``peak`` (bytes, with everything the
        process holds; None where the system does not tell), or ``error``.
    """
    command = [sys.executable, "-m", "fastsbl.bench.child", task, data, solver, repr(ratio), repr(tol), str(int(quick))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _forget_peak() -> None:
    """Start the kernel's record of this process's largest size anew (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # elsewhere the peak includes making the data
        return


def _peak() -> int | None:
    """Largest resident size of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def main() -> None:
    """Do what the command line says."""
    from fastsbl.bench.data import load
    from fastsbl.bench.solvers import quiet
    from fastsbl.bench.timing import TASKS, evaluate

    task, data, name, ratio, tol, quick = sys.argv[1:]
    problem = load(data, quick=bool(int(quick)))
    lam = float(ratio) * problem.lambda_max
    solver = next(solver for solver in TASKS[task] if solver.name == name)
    _forget_peak()
    start = time.perf_counter()
    answer = quiet(lambda: solver.solve(problem, lam, float(tol)))
    seconds = time.perf_counter() - start
    peak = _peak()
    found = {
        "seconds": seconds,
        "value": evaluate(task, problem, lam, answer),
        "passes": answer.passes,
        "matrix": problem.nbytes,
        "peak": peak,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
