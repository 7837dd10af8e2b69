# shellcheck shell=bash
# lib/leftovers.sh - nothing of an earlier launch is left where the next one starts
#
# A rank that outlives its launcher (`setsid`, a lost connection, a process that no signal reaches) holds its GPU's memory and its
# ports, and may still write checkpoints. All that a launch has started carries its OUTLAST_TOKEN in the environment.
#
# Functions
#   ol_leftovers_clear   kill what is left of this job's launches on the nodes of the next one (OUTLAST_NODE_LIST), and wait
#                        until it is gone, and what its GPUs held is free. Nodes that do not come clean are dropped (`leftovers`,
#                        `gpu_memory`), and those that do not answer (`no_answer`). 0 all are clean; 1 nobody can say
#                        (OUTLAST_WHY); 2 the job is told to end; 3 some were dropped: pick again
#
# Sets     OUTLAST_WHY
# Reads    OUTLAST_NODE_LIST OUTLAST_HOSTS OUTLAST_JOB_ID OUTLAST_STATE OUTLAST_PREFLIGHT OUTLAST_CHECK_SKIP OUTLAST_CHECK_GPU_TOOL
#          OUTLAST_ON_DURABLE OUTLAST_SYSROOT (lib/nodecheck.sh)
# Needs    log, attempt, nodes, nodegpu, reach
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

# Runs on a node: a driver needs seconds to give back what a dead process held. Status 1: after ten it has not. A node that
# cannot tell is taken as it is, and a tool that hangs is killed with its children (-m: a process group of its own).
_ol_leftovers_memory() {
  local out used tick pid
  out=$(mktemp) || return 0
  set -m
  SECONDS=0
  while :; do
    _ol_nodegpu_used_mib >"$out" 2>/dev/null </dev/null &
    pid=$!
    for ((tick = 0; tick < 30; tick++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    used=''
    if kill -0 "$pid" 2>/dev/null; then kill -s KILL -- "-$pid"; else read -r used <"$out"; fi
    if [[ ! $used =~ ^[0-9]+$ ]] || ((used <= 2048)); then
      rm -f "$out"
      return 0
    fi
    ((SECONDS < 10)) || break
    sleep 0.5
  done
  rm -f "$out"
  return 1
}

# Where preflight did not look at the memory, what is in use may have been in use before.
_ol_leftovers_looks_at_memory() {
  [[ ${OUTLAST_PREFLIGHT:-1} == 1 && " ${OUTLAST_CHECK_SKIP:-} " != *" gpu_memory "* && -n $(ol_nodegpu_vendor) ]]
}

_ol_leftovers_text() { # [memory]
  declare -f _ol_leftovers_kill
  # shellcheck disable=SC2016 # expanded on the node
  printf '_ol_leftovers_kill "$1"'
  [[ -n ${1:-} ]] || return 0
  printf ' || exit\n'
  declare -f _ol_leftovers_memory ol_nodegpu_vendor _ol_nodegpu_kfd _ol_nodegpu_used_mib _ol_nodegpu_tool
  printf 'OUTLAST_CHECK_GPU_TOOL=%q OUTLAST_SYSROOT=%q\n_ol_leftovers_memory\n' "${OUTLAST_CHECK_GPU_TOOL:-}" "${OUTLAST_SYSROOT:-}"
}

# Prints `leftovers HOST`, `gpu_memory HOST` and `no_answer HOST`. Status 1: the launcher does not work.
_ol_leftovers_ask() {
  local found silent node alive memory='' text dirty
  ! _ol_leftovers_looks_at_memory || memory=memory
  text=$(_ol_leftovers_text "$memory")
  found=$(ol_reach_failing 45 "$OUTLAST_NODE_LIST" bash -c "$text" _ "$OUTLAST_JOB_ID") || return 1
  [[ -n $found ]] || return 0
  silent=$(ol_reach_silent 20 "${found//$'\n'/,}") || return 1
  alive=$(grep -vxF -- "${silent:-,}" <<<"$found")
  dirty=$alive
  if [[ -n $memory && -n $alive ]]; then
    text=$(_ol_leftovers_text)
    dirty=$(ol_reach_failing 30 "${alive//$'\n'/,}" bash -c "$text" _ "$OUTLAST_JOB_ID") || return 1
    alive=$(grep -vxF -- "${dirty:-,}" <<<"$alive")
    _ol_leftovers_full "$alive"
  fi
  for node in $dirty; do printf 'leftovers %s\n' "$node"; done
  for node in $silent; do printf 'no_answer %s\n' "$node"; done
}

# What the command on durable checkpoints holds on the first node is its own business, and what many have in use is the site's.
_ol_leftovers_full() { # NODES
  local node who=()
  for node in $1; do
    [[ $node == "${OUTLAST_HOSTS[0]}" && -n ${OUTLAST_ON_DURABLE[*]:-} ]] || who+=("$node")
  done
  if ol_nodes_is_the_sites "${#who[@]}"; then
    ol_log_warn "the GPUs of ${#who[@]} nodes are not empty: that is the site's; going on"
    return 0
  fi
  for node in "${who[@]}"; do printf 'gpu_memory %s\n' "$node"; done
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
