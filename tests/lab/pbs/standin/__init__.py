"""A PBS that behaves as a real one was measured to behave, for hosts that have none.

`server` runs on the head and knows the jobs; `mom` runs on each execution host and runs them; each command of PBS is
a module with a `main`. "Facts N" and "facts §N" in the comments name rows and sections of the measurements.
"""
