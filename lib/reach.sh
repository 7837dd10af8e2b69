# shellcheck shell=bash
# lib/reach.sh - which nodes answer: through the launcher, bounded, at any number of nodes
#
# A launcher tells of many nodes only that one of them failed. So they are asked in groups, and a group that failed in smaller
# ones, 8 at a time, until each is alone. At most 8 launchers run at once: they all run beside the first rank. Output is no
# answer: some launchers do not bring it back (pbs-facts 15).
#
# Functions
#   ol_reach_failing SEC NODES CMD...   print those of NODES (with commas) where CMD does not succeed within SEC seconds, one a
#                                       line. 2: nobody can say, the launcher does not reach even our own node, or fails everywhere
#   ol_reach_silent SEC NODES           print those that do not answer at all. 2: nobody can say, the launcher does not work
#
# Reads    OUTLAST_HOSTS OUTLAST_STATE
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_reach_failing() {
  local limit_s=$1 nodes=$2 failed=("$2") parts group first=1 mute=','
  shift 2
  [[ -n $nodes ]] && ! ol_sched_on_each "$limit_s" "$nodes" "$@" >/dev/null 2>&1 || return 0
  # If the launcher does not reach the node that we run on, it says nothing about others.
  ol_sched_on_each "$limit_s" "${OUTLAST_HOSTS[0]}" true >/dev/null 2>&1 || return 2
  while ((${#failed[@]} > 0)); do
    parts=()
    for group in "${failed[@]}"; do
      if [[ $group == *,* ]]; then _ol_reach_split "$group"; else mute+=$group,; fi
    done
    _ol_reach_round "$limit_s" "$@"
    # Where all groups of many fail, the launcher does.
    ((first == 0 || ${#failed[@]} < ${#parts[@]})) || [[ ${parts[0]:-} != *,* ]] || return 2
    first=0
  done
  _ol_reach_in_order
}

# Adds the eighths of GROUP to `parts` of the caller.
_ol_reach_split() { # GROUP
  local names at size
  IFS=, read -ra names <<<"$1"
  size=$(((${#names[@]} + 7) / 8))
  for ((at = 0; at < ${#names[@]}; at += size)); do parts+=("$(_ol_reach_list "${names[@]:at:size}")"); done
}

# Asks all `parts` of the caller, 8 at a time; sets its `failed` to those that failed.
_ol_reach_round() { # SEC CMD...
  local limit_s=$1 at pids=() file=$OUTLAST_STATE/reach.$BASHPID
  shift
  failed=()
  for at in "${!parts[@]}"; do
    (ol_sched_on_each "$limit_s" "${parts[at]}" "$@" >/dev/null 2>&1 || : >"$file.$at") &
    pids+=("$!")
    ((${#pids[@]} < 8)) || {
      wait "${pids[@]}"
      pids=()
    }
  done
  ((${#pids[@]} == 0)) || wait "${pids[@]}"
  for at in "${!parts[@]}"; do
    [[ ! -e $file.$at ]] || failed+=("${parts[at]}")
    rm -f "$file.$at"
  done
}

# Prints those of `nodes` of the caller that are in its `mute`.
_ol_reach_in_order() {
  local names node
  IFS=, read -ra names <<<"$nodes"
  for node in "${names[@]}"; do [[ $mute != *,"$node",* ]] || printf '%s\n' "$node"; done
}

_ol_reach_list() {
  local IFS=,
  printf '%s' "$*"
}

# Each silent one is asked twice: a scheduler that is being restarted, or a full table of connections, passes.
ol_reach_silent() {
  local found
  found=$(ol_reach_failing "$@" true) || return 2
  [[ -z $found ]] || ol_reach_failing "$1" "${found//$'\n'/,}" true
}
