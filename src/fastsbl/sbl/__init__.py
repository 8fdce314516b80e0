"""Sparse Bayesian learning: the outer loop over weighted lasso problems, its evidence and its posterior."""

from fastsbl.sbl.averaging import SupportAverage
from fastsbl.sbl.evidence import loss, sbl_lambda_max
from fastsbl.sbl.fit import fit_sbl
from fastsbl.sbl.many import fit_sbl_batch, sbl_path, sbl_path_batch
from fastsbl.sbl.result import Certificate, Posterior, SBLResult

__all__ = [
    "Certificate",
    "Posterior",
    "SBLResult",
    "SupportAverage",
    "fit_sbl",
    "fit_sbl_batch",
    "loss",
    "sbl_lambda_max",
    "sbl_path",
    "sbl_path_batch",
]
