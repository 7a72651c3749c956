"""Reports: what a plan means and how it looks, numbers and drawing of one subject side by side."""
