# shellcheck shell=bash
# lib/log.sh - one line a message, on stderr
#
# Functions
#   ol_log_info TEXT...    what happens
#   ol_log_warn TEXT...    what went wrong and does not stop us
#   ol_log_error TEXT...   what stops us; says what to do
#
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

_ol_log() {
  printf '%(%H:%M:%S)T outlast: %s\n' -1 "$*" >&2
}

ol_log_info() { _ol_log "$@"; }
ol_log_warn() { _ol_log "warning:" "$@"; }
ol_log_error() { _ol_log "error:" "$@"; }
