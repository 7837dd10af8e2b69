# shellcheck shell=bash
# tests/lab/child_of.sh - the PID 1 behind an `unshare --fork`
#
# Functions
#   child_of PID     print the PID of PID's first child, as soon as it has one; status 1: PID ended without

child_of() {
  local child
  while child=$(<"/proc/$1/task/$1/children") 2>/dev/null; do
    [[ -z $child ]] || break
    sleep 0.01
  done
  [[ -n $child ]] && printf '%s\n' "${child%% *}"
}
