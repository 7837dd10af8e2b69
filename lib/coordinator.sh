# shellcheck shell=bash
# lib/coordinator.sh - the Python that makes checkpoints durable (docs/sidecar.md), started, watched, listened to
#
# For storage on the nodes. Where there is no Python, or it fails again and again, lib/courier.sh copies by itself what the
# first node has; where that is only a part of each checkpoint, Python is tried again each minute. All of it runs in the
# sidecar's process, and ends with it.
#
# Functions
#   ol_coordinator_serves   is it at work (started now, or again)? 1: no, or not yet: Bash has to copy
#
# Files    OUTLAST_STATE/sidecar_port   where the agents find it
#          OUTLAST_STATE/sidecar_hosts  all hosts of the job, one a line: too many for a word of the environment
#          OUTLAST_STATE/sidecar_beat   UTC seconds of its last sign of life
# Reads    OUTLAST_POLL_S OUTLAST_STORAGE OUTLAST_CKPT_COPIER OUTLAST_STATE OUTLAST_LOCAL OUTLAST_RUN_DIR OUTLAST_VERSION OUTLAST_HOSTS OUTLAST_LAUNCHER
# Needs    log, bounded, bring, ledger, checkpoint, environment, nodes, py
# Sourcing it defines the functions above and does nothing else.

ol_coordinator_serves() {
  [[ $OUTLAST_STORAGE == local && $OUTLAST_CKPT_COPIER == agents ]] || return 1
  if [[ -n ${OL_COORDINATOR_PID:-} ]]; then
    if _ol_coordinator_lives; then
      _ol_coordinator_agents
      return 0
    fi
    _ol_coordinator_failed
  fi
  ((${OL_COORDINATOR_FAILS:-0} < 5)) || _ol_coordinator_tries_on || return 1
  # The run's first job may still be making the tools that it starts.
  ol_shared test -e "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast/sidecar/coordinator.py" || return 1
  _ol_coordinator_start
}

_ol_coordinator_tries_on() {
  local now_s
  printf -v now_s '%(%s)T' -1
  ol_checkpoint_is_in_parts && ((now_s - OL_COORDINATOR_S >= 60))
}

# Its first sign of life may take a while: Python reads itself from the shared file system.
_ol_coordinator_lives() {
  local beat_s='' now_s
  kill -0 "$OL_COORDINATOR_PID" 2>/dev/null || return 1
  read -r beat_s 2>/dev/null <"$OUTLAST_STATE/sidecar_beat"
  printf -v now_s '%(%s)T' -1
  ((now_s - ${beat_s:-$OL_COORDINATOR_S} < 60))
}

# One that has worked for ten minutes has earned a new start.
_ol_coordinator_failed() {
  local now_s then_="Bash copies now"
  printf -v now_s '%(%s)T' -1
  ((now_s - OL_COORDINATOR_S < 600)) || OL_COORDINATOR_FAILS=0
  OL_COORDINATOR_FAILS=$((${OL_COORDINATOR_FAILS:-0} + 1))
  kill -s KILL "$OL_COORDINATOR_PID" 2>/dev/null
  OL_COORDINATOR_PID=''
  ol_log_warn "the sidecar's Python ended: $(tail -n 1 "$OUTLAST_STATE/coordinator.err" 2>/dev/null)"
  ! ol_checkpoint_is_in_parts || then_="checkpoints stay on the nodes, it is tried again each minute"
  ((OL_COORDINATOR_FAILS != 5)) || ol_ledger_add warned text="the sidecar's Python ended $OL_COORDINATOR_FAILS times: $then_"
}

# Its own and the agents' secret, in no command line: other users of a node may read those.
_ol_coordinator_token() {
  local file=$OUTLAST_STATE/sidecar_token token=''
  [[ -s $file ]] || (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$file" && echo >>"$file")
  read -r token <"$file"
  printf '%s\n' "$token"
}

_ol_coordinator_start() {
  local says=$OUTLAST_STATE/coordinator.says token parent=$BASHPID
  token=$(_ol_coordinator_token)
  rm -f "$says" "$OUTLAST_STATE/sidecar_beat"
  printf '%s\n' "${OUTLAST_HOSTS[@]}" >"$OUTLAST_STATE/sidecar_hosts"
  mkfifo "$says" || return
  printf -v OL_COORDINATOR_S '%(%s)T' -1
  _ol_coordinator_listen <"$says" &
  (
    # It ends with us, even if we are killed before it has come to ask for that.
    export OUTLAST_SIDECAR_PID=$parent OUTLAST_AGENT_TOKEN=$token
    export OUTLAST_VERSION OUTLAST_STATE OUTLAST_LOCAL OUTLAST_RUN_DIR OUTLAST_CKPT_DIR OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_GENERATION
    export OUTLAST_CKPT_PREFIX OUTLAST_CKPT_COMPLETE OUTLAST_CKPT_QUIET_S OUTLAST_CKPT_KEEP OUTLAST_CKPT_KEEP_BEST OUTLAST_CKPT_KEEP_EVERY OUTLAST_CKPT_GRACE_S OUTLAST_SHARDED OUTLAST_RANKS_PER_NODE
    export OUTLAST_POLL_S OUTLAST_CKPT_WRITERS OUTLAST_CKPT_MIB_PER_S OUTLAST_CKPT_MEMORY_GIB
    ol_py_become sidecar
  ) >"$says" 2>"$OUTLAST_STATE/coordinator.err" </dev/null &
  OL_COORDINATOR_PID=$!
}

# What it says, a line a time, in words with tabs between (pyhelpers/outlast/sidecar/coordinator.py). `drained` comes
# behind the events that it is about, so it is written here: who waits for it may count on the ledger.
_ol_coordinator_listen() {
  local words
  while IFS=$'\t' read -r -a words; do
    ol_checkpoint_attempt
    case ${words[0]:-} in
      event) [[ ${words[1]:-} =~ ^(checkpoint_local|checkpoint_durable|checkpoint_torn|warned)$ ]] && ol_ledger_add "${words[@]:1}" ;;
      log) if [[ ${words[1]:-} == warn ]]; then ol_log_warn "${words[2]:-}"; else ol_log_info "${words[2]:-}"; fi ;;
      drained) printf '%s\n' "${words[1]:-}" >"$OUTLAST_STATE/drain_done" ;;
    esac
  done
}

# An agent on each other node, as one step beside the training. A launcher that ends is started again, a little
# later each time; those that are still there go on meanwhile. One agent that dies (it is the first that the memory killer
# takes) does not end its launcher, so its shell starts it again; with 0 it ends when it is not wanted any more.
_ol_coordinator_agents() {
  local now_s address port others text token=''
  ((${#OUTLAST_HOSTS[@]} > 1)) && [[ -s $OUTLAST_STATE/sidecar_port ]] || return 0
  [[ -z ${OL_AGENTS_PID:-} ]] || ! kill -0 "$OL_AGENTS_PID" 2>/dev/null || return 0
  printf -v now_s '%(%s)T' -1
  ((now_s >= ${OL_AGENTS_AT_S:-0})) || return 0
  # One that was there for ten minutes was no failure.
  ((now_s - ${OL_AGENTS_S:-$now_s} < 600)) || OL_AGENTS_WAIT_S=1
  OL_AGENTS_WAIT_S=$((${OL_AGENTS_WAIT_S:-1} < 60 ? ${OL_AGENTS_WAIT_S:-1} * 2 : 60))
  OL_AGENTS_AT_S=$((now_s + OL_AGENTS_WAIT_S))
  address=$(ol_environment_master "${OUTLAST_HOSTS[0]}" 2>/dev/null) || return 0
  read -r port <"$OUTLAST_STATE/sidecar_port"
  others=$(_ol_coordinator_others)
  [[ -n $others ]] || return 0
  ol_bring disk wire agent || return 0
  text=$(declare -f ol_bring_here ol_bring_run _ol_coordinator_agent)
  # These launchers carry no environment.
  [[ ${OUTLAST_LAUNCHER:-} != mpich-* ]] || token=$(_ol_coordinator_token)
  (
    # shellcheck disable=SC2030 # the launcher's environment
    OUTLAST_AGENT_TOKEN=$(_ol_coordinator_token)
    export OUTLAST_AGENT_TOKEN
    ol_sched_on_each "$OUTLAST_WALLTIME_S" "$others" bash -c "$text; _ol_coordinator_agent \"\$@\"" outlast-agent \
      "$token" "$address" "$port" "$OUTLAST_LOCAL" "$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_PYTHON" "${OL_BRING[@]}"
  ) >"$OUTLAST_STATE/agents.log" 2>&1 </dev/null &
  OL_AGENTS_PID=$! OL_AGENTS_S=$now_s
}

# Runs on a node: its agent, again and again until it is not wanted any more.
_ol_coordinator_agent() { # TOKEN ADDRESS PORT LOCAL DIR PREFIX DURABLE PYTHON FILE...
  local host tries status
  # shellcheck disable=SC2031 # on a node that is the environment which the launcher has carried
  export OUTLAST_AGENT_TOKEN=${OUTLAST_AGENT_TOKEN:-$1}
  umask 077
  mkdir -p "$4/checkpoints" && ol_bring_here "$4/py" "${@:9}" || return
  read -r host </proc/sys/kernel/hostname # a launcher may hand on the HOSTNAME of the first host
  for ((tries = 0; tries < 1000; tries++)); do
    status=0
    ol_bring_run "$4/py" agent "$8" "$2" "$3" "${SLURMD_NODENAME:-$host}" "${@:4:4}" || status=$?
    ((status != 0)) && [[ -d $4 ]] || return 0
    ((status != 127)) || break
    sleep 2
  done
  ((status != 127)) || echo "outlast: no Python 3.6 or newer on $host" >&2
  return 1
}

# A launcher may wait for a dead node for ever; those that were given up or that the scheduler calls down are left out.
_ol_coordinator_others() {
  local host asked list='' down=''
  IFS=, read -ra asked < <(ol_nodes_others)
  ((${#asked[@]} > 0)) || return 0
  ((${OL_AGENTS_WAIT_S:-0} <= 2)) || down=$(ol_sched_down_nodes "${asked[@]}")
  for host in "${asked[@]}"; do
    [[ $'\n'$down$'\n' == *$'\n'"$host"$'\n'* ]] || list+=${list:+,}$host
  done
  printf '%s\n' "$list"
}
