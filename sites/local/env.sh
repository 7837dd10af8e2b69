# shellcheck shell=bash
# sites/local/env.sh - one machine: nothing to load, nothing to set
#
# Functions
#   ol_site_modules   nothing
#   ol_site_env       nothing
#
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  :
}
