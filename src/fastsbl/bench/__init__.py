"""What we are compared with, side by side in one run, judged from outside."""

from fastsbl.bench.run import FULL, QUICK, run_benchmark
from fastsbl.bench.table import BenchReport
from fastsbl.bench.timing import Plan, Row

__all__ = ["FULL", "QUICK", "BenchReport", "Plan", "Row", "run_benchmark"]
