"""Networks written here after the papers that describe them."""
