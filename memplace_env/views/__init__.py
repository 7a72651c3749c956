"""What people look at: pictures (`figures`), tables (`tables`), sentences (`text`) and traces, as pure functions.

What they show is worked out in `memplace_env.analysis`; what they look like is said in `style`.
"""
