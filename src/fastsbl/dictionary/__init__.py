"""The dictionary Phi: one protocol over dense, sparse and operator storage, counting its reads."""

from fastsbl.dictionary.base import Dictionary
from fastsbl.dictionary.convert import as_dictionary
from fastsbl.dictionary.dense import DenseDictionary
from fastsbl.dictionary.operator import OperatorDictionary
from fastsbl.dictionary.row_sparse import RowSparseDictionary
from fastsbl.dictionary.sparse import SparseDictionary

__all__ = [
    "DenseDictionary",
    "Dictionary",
    "OperatorDictionary",
    "RowSparseDictionary",
    "SparseDictionary",
    "as_dictionary",
]
