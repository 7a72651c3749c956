"""Rules of the operators' tables, by theme: matrix products of a node, its element operations, views."""
