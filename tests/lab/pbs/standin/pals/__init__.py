"""A launcher that behaves as HPE's PALS on Aurora and Polaris, as far as its users have described it.

`mpiexec` asks the `palsd` of each host for a `shepherd`, which starts the ranks there and passes on what they print.
It is told of by ALCF's pages and by logs of its users; nobody has measured it, so what they do not tell is marked.
"""

PORT = 15099
