"""The package's logger, to which callers attach handlers; without one nothing is printed."""

import logging
from typing import Final

LOGGER: Final = logging.getLogger("memplace")
LOGGER.addHandler(logging.NullHandler())
