"""Rules about one node that operators refer to, by theme: its products, its element operations, views."""
