# shellcheck shell=sh
# As SLES does. A shell keeps the HOSTNAME that it inherits, so on other hosts of a job it is the first one's.
HOSTNAME=$(uname -n)
export HOSTNAME
