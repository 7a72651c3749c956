"""Networks of our own making, after the papers that brought them."""
