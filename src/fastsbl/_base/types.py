"""Array aliases, in one place."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""A float64 array."""
Array: TypeAlias = NDArray[Any]
"""A real or complex array."""
IndexArray: TypeAlias = NDArray[np.intp]
"""Column numbers."""
IntArray: TypeAlias = NDArray[np.int64]
"""Numbers of sources, frames and pixels."""
BoolArray: TypeAlias = NDArray[np.bool_]
"""A mask."""
