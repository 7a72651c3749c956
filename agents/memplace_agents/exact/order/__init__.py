"""The order of ops as a decision: a bound over all orders, and a search for a good one."""
