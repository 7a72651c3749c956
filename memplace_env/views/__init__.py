"""What people look at: pictures, traces and tables of plans, as pure functions."""
