"""Safe screening: proofs that a column's coefficient is zero, before or while a problem is solved."""

from fastsbl.screening.region import HalfSpace, Region, Screening
from fastsbl.screening.rules import (
    dome_test,
    gap_dome_test,
    gap_sphere_test,
    holder_dome_test,
    rule_names,
    sphere_test,
    two_hyperplane_test,
)

__all__ = [
    "HalfSpace",
    "Region",
    "Screening",
    "dome_test",
    "gap_dome_test",
    "gap_sphere_test",
    "holder_dome_test",
    "rule_names",
    "sphere_test",
    "two_hyperplane_test",
]
