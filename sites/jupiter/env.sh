# shellcheck shell=bash
# sites/jupiter/env.sh - JUPITER: no module and no variable is known well enough to be set for everybody
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
