# shellcheck shell=bash
# lib/reach.sh - which nodes answer: through the launcher, bounded, at any number of nodes
#
# A launcher tells of many nodes only that one of them failed. So they are asked in groups, and a group that failed in smaller
# ones: 8 at a time, until each is alone. Output is no answer: some launchers do not bring it back (pbs-facts 15).
#
# Functions
#   ol_reach_failing SEC NODES CMD...   print those of NODES (with commas) where CMD does not succeed within SEC seconds, one a line
#   ol_reach_silent SEC NODES           print those that do not answer at all. 2: nobody can say, the launcher does not work
#
# Reads    OUTLAST_HOSTS OUTLAST_STATE
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_reach_failing() {
  local limit_s=$1 names=() size at pids=() part=$OUTLAST_STATE/reach.$BASHPID
  IFS=, read -ra names <<<"$2"
  shift 2
  ((${#names[@]} > 0)) || return 0
  ! ol_sched_on_each "$limit_s" "$(_ol_reach_list "${names[@]}")" "$@" >/dev/null 2>&1 || return 0
  if ((${#names[@]} == 1)); then
    printf '%s\n' "${names[0]}"
    return
  fi
  size=$(((${#names[@]} + 7) / 8))
  for ((at = 0; at < ${#names[@]}; at += size)); do
    (ol_reach_failing "$limit_s" "$(_ol_reach_list "${names[@]:at:size}")" "$@") >"$part.$at" &
    pids+=("$!")
  done
  wait "${pids[@]}"
  for ((at = 0; at < ${#names[@]}; at += size)); do
    cat "$part.$at"
    rm -f "$part.$at"
  done
}

_ol_reach_list() {
  local IFS=,
  printf '%s' "$*"
}

# Our own node is asked as well: if the launcher does not reach even that, it says nothing about others. And each silent one
# is asked twice: a scheduler that is being restarted, or a full table of connections, passes.
ol_reach_silent() {
  local found
  found=$(ol_reach_failing "$@" true)
  [[ -n $found ]] || return 0
  ol_sched_on_each "$1" "${OUTLAST_HOSTS[0]}" true >/dev/null 2>&1 || return 2
  ol_reach_failing "$1" "${found//$'\n'/,}" true
}
