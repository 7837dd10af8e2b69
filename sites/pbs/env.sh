# shellcheck shell=bash
# sites/pbs/env.sh - an unknown PBS cluster: no modules, no variables
#
# Functions
#   ol_site_modules   nothing; put `module load ...` into the job's `setup`
#   ol_site_env       nothing: NCCL's defaults fit InfiniBand
#
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  :
}
