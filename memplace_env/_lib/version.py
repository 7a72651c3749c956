"""The version of the package."""

from typing import Final

__version__: Final = "2.0.0"
