# shellcheck shell=bash
# lib/leftovers.sh - nothing of an earlier launch is left where the next one starts
#
# A rank that outlives its launcher (`setsid`, a lost connection, a process that no signal reaches) holds its GPU's memory and its
# ports, and may still write checkpoints. All that a launch has started carries its OUTLAST_TOKEN in the environment.
#
# Functions
#   ol_leftovers_clear   kill what is left of this job's launches on the nodes of the next one (OUTLAST_NODE_LIST), and wait
#                        until it is gone. Nodes that do not come clean are dropped (`leftovers`), and those that do not answer
#                        (`no_answer`). 0 all are clean; 1 nobody can say (OUTLAST_WHY); 2 the job is told to end;
#                        3 some were dropped: pick again
#
# Sets     OUTLAST_WHY
# Reads    OUTLAST_NODE_LIST OUTLAST_JOB_ID OUTLAST_STATE
# Needs    log, attempt, nodes, reach
# Sourcing it defines the functions above and does nothing else.

# Runs on a node: killed again and again for 15 seconds, since one may be starting another. Also what the job left before it
# was requeued. Status 1: some are still there.
_ol_leftovers_kill() { # JOB
  local environ tick pid found
  for ((tick = 0; tick < 30; tick++)); do
    found=''
    for environ in /proc/[0-9]*/environ; do
      [[ -O $environ ]] || continue
      grep -qz "^OUTLAST_TOKEN=${1//[^A-Za-z0-9]/.}\." "$environ" 2>/dev/null || continue
      pid=${environ//[!0-9]/} found=1
      kill -s KILL "$pid" 2>/dev/null
    done
    [[ -n $found ]] || return 0
    sleep 0.5
  done
  return 1
}

# Prints `leftovers HOST` and `no_answer HOST`. Status 1: the launcher does not work.
_ol_leftovers_ask() {
  local found silent node
  found=$(ol_reach_failing 30 "$OUTLAST_NODE_LIST" bash -c "$(declare -f _ol_leftovers_kill); _ol_leftovers_kill \"\$1\"" _ "$OUTLAST_JOB_ID") || return 1
  [[ -n $found ]] || return 0
  silent=$(ol_reach_silent 20 "${found//$'\n'/,}") || return 1
  for node in $found; do
    if [[ $'\n'$silent$'\n' == *$'\n'"$node"$'\n'* ]]; then
      printf 'no_answer %s\n' "$node"
    else
      printf 'leftovers %s\n' "$node"
    fi
  done
}

ol_leftovers_clear() {
  local said=$OUTLAST_STATE/leftovers status=0 reason node
  _ol_leftovers_ask >"$said" &
  _ol_attempt_await "$!" 300 || status=$?
  if ((status != 0)); then
    OUTLAST_WHY="nobody can say whether the last launch is gone from its nodes"
    return "$status"
  fi
  [[ -s $said ]] || return 0
  if ol_nodes_is_the_sites "$(wc -l <"$said")"; then
    OUTLAST_WHY="$(wc -l <"$said") nodes do not answer, or keep what was killed there"
    return 1
  fi
  while read -r reason node; do
    ol_nodes_drop "$reason" "$node"
  done <"$said"
  ol_nodes_strike_aside
  return 3
}
