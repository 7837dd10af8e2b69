# shellcheck shell=sh
# What preflight reads instead of /sys and /proc: a node of the site, tests/lab/furnish made it.
export OUTLAST_SYSROOT=/opt/node
