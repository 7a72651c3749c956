"""Networks written after the papers that describe them."""
