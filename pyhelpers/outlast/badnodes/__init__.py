"""The file of bad nodes, bad_nodes.txt: who is to blame, since when, for how long. docs/badnodes.md."""
