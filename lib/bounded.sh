# shellcheck shell=bash
# lib/bounded.sh - run a command that may never come back
#
# Functions
#   ol_bounded SEC CMD...      run CMD, without stdin, for at most SEC seconds; its status, or 124
#   ol_bounded_print SEC CMD.. the same, and print what it wrote on stdout
#   ol_bounded_nap SEC         sleep, without starting a process where ol_bounded_open was called
#   ol_bounded_open            for that: give this shell a pipe on which nothing ever arrives (Bash 5.2 or newer)
#   ol_bounded_close           in a subshell that becomes somebody else's program: it must not have that pipe
#   ol_shared CMD...           a command that touches the shared file system
#   ol_shared_print CMD...     the same, and print what it wrote on stdout
#
# Reads    OUTLAST_STATE (a node-local folder), OUTLAST_SHARED_LIMIT_S
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# A process that waits for a frozen file system cannot even be killed, and `timeout` waits for its
# child: so CMD runs in the background and is left behind when its time is up.
ol_bounded() {
  local limit_s=$1 pid ticks status=0
  shift
  timeout -k 2 "$limit_s" "$@" &
  pid=$!
  # Twenty looks a second for two seconds, then two: a copy may run for an hour.
  ticks=$((limit_s * 2 + 40))
  while kill -0 "$pid" 2>/dev/null; do
    ((ticks > 0)) || return 124
    ticks=$((ticks - 1))
    if ((ticks > limit_s * 2)); then ol_bounded_nap 0.05; else ol_bounded_nap 0.5; fi
  done
  wait "$pid" || status=$?
  # `timeout` says 137 where TERM was not enough: that is no answer of CMD either.
  return "$((status == 137 ? 124 : status))"
}

# Several loops look around a few times a second for days: a process for each look would be the most that
# outlast costs. No trap is lost in a `read -t` (slurm-facts 2).
# Before 5.2 a `read -t` counts on an alarm, and when that comes just before the read, the read never ends: 1 of
# some thousand on a busy node.
ol_bounded_open() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 502)) || return 0
  mkfifo "$OUTLAST_STATE/nap" && exec {OL_NAP_FD}<>"$OUTLAST_STATE/nap"
}

ol_bounded_close() {
  [[ -z ${OL_NAP_FD:-} ]] || exec {OL_NAP_FD}>&-
  OL_NAP_FD=''
}

ol_bounded_nap() {
  local _
  if [[ -n ${OL_NAP_FD:-} ]]; then
    read -rt "$1" -u "$OL_NAP_FD" _
  else
    sleep "$1"
  fi
  return 0
}

# The output goes through a file: a pipe would keep the reader waiting for a child left behind. No room for
# the file is no answer: the status of a command that never ran would read as one.
ol_bounded_print() {
  local out=$OUTLAST_STATE/print.$BASHPID status=0
  : >"$out" || return 124
  ol_bounded "$@" >"$out" || status=$?
  cat "$out"
  rm -f "$out"
  return "$status"
}

ol_shared() { ol_bounded "${OUTLAST_SHARED_LIMIT_S:-20}" "$@"; }
ol_shared_print() { ol_bounded_print "${OUTLAST_SHARED_LIMIT_S:-20}" "$@"; }
