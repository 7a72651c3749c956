"""Viewer: a snapshot of a game as numbers, picture, board and text."""
