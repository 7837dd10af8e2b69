# shellcheck shell=bash
# lib/bounded.sh - run a command that may never come back
#
# Functions
#   ol_bounded SEC CMD...      run CMD, without stdin, for at most SEC seconds; its status, or 124
#   ol_bounded_print SEC CMD.. the same, and print what it wrote on stdout
#   ol_shared CMD...           a command that touches the shared file system
#   ol_shared_print CMD...     the same, and print what it wrote on stdout
#
# Reads    OUTLAST_STATE (a node-local folder), OUTLAST_SHARED_LIMIT_S
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# A process that waits for a frozen file system cannot even be killed, and `timeout` waits for its
# child: so CMD runs in the background and is left behind when its time is up.
ol_bounded() {
  local limit_s=$1 pid ticks
  shift
  timeout -k 2 "$limit_s" "$@" &
  pid=$!
  # Twenty looks a second for two seconds, then two: a copy may run for an hour.
  ticks=$((limit_s * 2 + 40))
  while kill -0 "$pid" 2>/dev/null; do
    ((ticks > 0)) || return 124
    ticks=$((ticks - 1))
    if ((ticks > limit_s * 2)); then sleep 0.05; else sleep 0.5; fi
  done
  wait "$pid"
}

# The output goes through a file: a pipe would keep the reader waiting for a child left behind.
ol_bounded_print() {
  local out=$OUTLAST_STATE/print.$BASHPID status=0
  ol_bounded "$@" >"$out" || status=$?
  cat "$out"
  rm -f "$out"
  return "$status"
}

ol_shared() { ol_bounded "${OUTLAST_SHARED_LIMIT_S:-20}" "$@"; }
ol_shared_print() { ol_bounded_print "${OUTLAST_SHARED_LIMIT_S:-20}" "$@"; }
