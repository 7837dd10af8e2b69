# shellcheck shell=bash
# sites/frontier/env.sh - the environment of a job on Frontier
#
# Functions
#   ol_site_modules   load the modules
#   ol_site_env       set the variables
#
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  : "${FI_MR_CACHE_MONITOR:=kdreg2}"
  export FI_MR_CACHE_MONITOR
}
