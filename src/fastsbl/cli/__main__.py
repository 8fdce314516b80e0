"""``python -m fastsbl.cli``: the same as ``fastsbl``."""

import sys

from fastsbl.cli import main

if __name__ == "__main__":
    sys.exit(main())
