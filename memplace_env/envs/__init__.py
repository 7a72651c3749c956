"""Gymnasium environments, one folder for each formulation of the problem."""
