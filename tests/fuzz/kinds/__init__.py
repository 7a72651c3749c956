"""Kinds of cases, a module each: `NAME`, `CASES`, `prepare(folder)` and `case(prepared, rng, folder)`."""
