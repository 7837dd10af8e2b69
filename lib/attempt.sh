# shellcheck shell=bash
# lib/attempt.sh - one launch: one checkpoint for all nodes, a fresh rendezvous, the ranks
#
# Functions
#   ol_attempt_begin       choose the checkpoint, put it on every node, find the master, start the launcher
#                          0 launched; 1 could not (OUTLAST_WHY); 2 the job is told to end; 3 no file system;
#                          4 there should be a checkpoint and is none; 5 what is pinned has changed; 7 too few nodes are left
#   ol_attempt_prepare     the user's once-per-run step, under its own limit; same status
#
# Sets     OUTLAST_ATTEMPT OUTLAST_RESUME_STEP (empty: a fresh start) OUTLAST_RESUME
#          OUTLAST_LAUNCH_PID OUTLAST_LAUNCH_S OUTLAST_LOG OUTLAST_SAID OUTLAST_WHY
# Needs    log, bounded, ledger, history, run, checkpoint, stage, nodes, leftovers, successor, pulse, courier, deadline, environment, shim, progress, pins, versions
# Sourcing it defines the functions above and does nothing else.

# The nodes of the launch, with nothing of an earlier one on them. Each turn has a node less to choose from.
_ol_attempt_nodes() {
  local status
  while ol_nodes_pick; do
    ((OUTLAST_ATTEMPT > 1 || OUTLAST_RESTART > 0)) || return 0
    status=0
    ol_leftovers_clear || status=$?
    ((status > 0)) || return 0
    ((status == 3)) || return "$((status == 2 ? 2 : 7))"
    ol_successor_exclude
  done
  return 7
}

# The newest durable checkpoint. A file system that does not answer is waited for, half an hour at most:
# without it a start would be a silent fresh start.
_ol_attempt_choose() {
  local answer status lost begun_s now_s
  printf -v begun_s '%(%s)T' -1
  while :; do
    status=0
    answer=$(ol_checkpoint_durable) || status=$?
    case $status in
      0)
        OUTLAST_RESUME_STEP=${answer%% *}
        OUTLAST_RESUME_FROM=${answer#* }
        return 0
        ;;
      1)
        OUTLAST_RESUME_STEP='' OUTLAST_RESUME_FROM=''
        lost=$(ol_history_durable)
        [[ -n $lost ]] || return 0
        OUTLAST_WHY="checkpoint $lost was durable, and no whole one is left (quarantine/why.txt): resuming is a fresh start"
        return 4
        ;;
    esac
    OUTLAST_WHY="the shared file system does not answer"
    ol_log_warn "$OUTLAST_WHY; waiting"
    printf -v now_s '%(%s)T' -1
    ((now_s - begun_s < 1800)) && ! ol_deadline_is_near "$OUTLAST_STARTUP_S" || return 3
    ol_run_pause 10 || return 2
  done
}

# The same step on every node, and nothing newer: two ranks that resume from different steps train garbage. One
# that proves bad is in quarantine then, so each turn has a checkpoint less to choose from.
_ol_attempt_arrange() {
  local status=0 durable=0
  ol_stage || status=$?
  while ((status == 5)); do
    _ol_attempt_choose || return
    status=0
    ol_stage || status=$?
  done
  # The sidecar copies nothing older than what is durable, and that may be less than it was.
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  ((${OUTLAST_RESUME_STEP:-0} >= durable)) || printf '%d\n' "${OUTLAST_RESUME_STEP:-0}" >"$OUTLAST_STATE/durable_step"
  return "$status"
}

_ol_attempt_is_told() { [[ -e $OUTLAST_STATE/term || -e $OUTLAST_STATE/stop || -e $OUTLAST_STATE/deadline ]]; }

# Status 1: failed or took longer than SEC; 2: told to end meanwhile.
_ol_attempt_await() { # PID SEC
  local tick
  for ((tick = 0; tick < $2 * 5; tick++)); do
    kill -0 "$1" 2>/dev/null || {
      ! wait "$1" || return 0
      # PBS's signals go to our children as well, which may die of one before we hear of it.
      ol_bounded_nap 0.5
      ! _ol_attempt_is_told || return 2
      return 1
    }
    if _ol_attempt_is_told; then
      kill "$1" 2>/dev/null
      return 2
    fi
    ol_bounded_nap 0.2
  done
  kill "$1" 2>/dev/null
  return 1
}

# A port of this attempt's own: the one before may linger on a dead socket.
_ol_attempt_port() {
  local port tick used
  used=$(awk 'NR > 1 { split($2, a, ":"); print a[2] }' /proc/net/tcp 2>/dev/null)
  for ((tick = 0; tick < 100; tick++)); do
    port=$((20000 + (${OUTLAST_JOB_ID//[!0-9]/} * 37 + OUTLAST_ATTEMPT * 101 + tick * 7) % 12000))
    [[ $'\n'$used$'\n' == *$'\n'"$(printf '%04X' "$port")"$'\n'* ]] || break
  done
  printf '%d\n' "$port"
}

# The user's command with its placeholders filled; `{resume}` alone becomes the preset's words or nothing. The
# quotes keep an & of a path from being bash 5.2's word for what was replaced.
_ol_attempt_command() {
  local word words=() ranks=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE))
  for word in "${OUTLAST_COMMAND[@]}"; do
    if [[ $word == '{resume}' ]]; then
      [[ -z $OUTLAST_RESUME ]] || words+=("${OUTLAST_RESUME_ARGS[@]//'{ckpt}'/"$OUTLAST_RESUME"}")
      continue
    fi
    word=${word//'{ckpt_dir}'/"$OUTLAST_CKPT_DIR"}
    word=${word//'{nodes}'/"$OUTLAST_NODES"}
    word=${word//'{ranks}'/"$ranks"}
    words+=("${word//'{run}'/"$OUTLAST_RUN"}")
  done
  OUTLAST_WORDS=("${words[@]}")
}

# What a rank sees. Nothing else of ours is exported. In a subshell of the launch: it may exit.
_ol_attempt_environment() {
  local master=$1
  set +u # module and conda scripts read unset variables
  ol_site_modules || {
    printf 'outlast: a module of %s did not load\n' "$OUTLAST_SITE" >&2
    exit 72
  }
  ol_job_env
  export MASTER_ADDR=$master MASTER_PORT=${OUTLAST_PORT:-} PYTHONUNBUFFERED=1
  export OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_TOKEN OUTLAST_ATTEMPT OUTLAST_RANKS_PER_NODE OUTLAST_CKPT_DIR OUTLAST_RESUME OUTLAST_RESUME_STEP OUTLAST_RESUME_RANKS
  # A rank of PALS with PMIx (Aurora) is told its number and not how many there are; the shim falls back on this.
  export WORLD_SIZE=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE))
  export OUTLAST_STOP_FILE=$OUTLAST_LOCAL/stop OUTLAST_DEADLINE=${OUTLAST_DEADLINE_S:-}
  # The first to set a variable wins: the job, its site, what is common.
  ol_site_env
  ol_environment_job
}

# What `bash -c` runs as each rank. A command that is one of our own functions goes along with its helpers.
_ol_attempt_rank_text() {
  local command=${OUTLAST_COMMAND[0]} also=''
  if declare -F "$command" >/dev/null; then
    also=$(compgen -A function "_$command")
    also="$command ${also//$'\n'/ }"
  fi
  # shellcheck disable=SC2086 # names of functions, as words
  ol_shim_text $also
}

_ol_attempt_launch() { # MASTER
  local text
  text=$(_ol_attempt_rank_text)
  # Other processes look at it at any time, so it is written whole.
  printf '%d %s\n%s\n' "$OUTLAST_ATTEMPT" "$OUTLAST_NODE_LIST" "${OUTLAST_RESUME_FROM#"$OUTLAST_RUN_DIR/checkpoints/"}" >"$OUTLAST_STATE/attempt.new"
  mv "$OUTLAST_STATE/attempt.new" "$OUTLAST_STATE/attempt"
  printf 'running\n' >"$OUTLAST_STATE/ranks"
  (
    trap - TERM USR1 EXIT
    exec {OUTLAST_OUT_FD}>&-
    ol_bounded_close
    _ol_attempt_environment "$1"
    cd "$OUTLAST_PROJECT" || exit 72
    ol_job_setup || {
      printf 'outlast: a line of setup failed\n' >&2
      exit 72
    }
    ol_versions_note "${OUTLAST_WORDS[@]}"
    ol_sched_launch "$OUTLAST_NODE_LIST" "$OUTLAST_RANKS_PER_NODE" bash -c "$text" outlast-rank "${OUTLAST_WORDS[@]}"
  ) >"$OUTLAST_LOG" 2>&1 &
  OUTLAST_LAUNCH_PID=$!
}

_ol_attempt_master() {
  # The ranks of one node meet on its loopback, whatever its name resolves to (127.0.1.1 on Debian).
  if ((OUTLAST_NODES == 1)); then
    OUTLAST_MASTER=127.0.0.1
    return 0
  fi
  OUTLAST_MASTER=$(ol_environment_master "${OUTLAST_HOSTS[0]}" 2>"$OUTLAST_STATE/master.err") && return 0
  OUTLAST_WHY=$(sed 's/.*error: //' "$OUTLAST_STATE/master.err" | head -c 300)
  return 1
}

# In the project folder, with what the ranks will see, on the first node only.
ol_attempt_prepare() {
  local pid status=0 marker=$OUTLAST_RUN_DIR/prepared
  declare -F ol_job_prepare >/dev/null || return 0
  ! ol_shared test -e "$marker" || return 0
  ol_log_info "prepare: the job's once-per-run step, at most $OUTLAST_PREPARE_LIMIT_S s"
  (
    trap - TERM USR1 EXIT
    _ol_attempt_environment ''
    cd "$OUTLAST_PROJECT" && ol_job_setup && ol_job_prepare
  ) >"$OUTLAST_LOCAL/attempt.0.log" 2>&1 &
  pid=$!
  _ol_attempt_await "$pid" "$OUTLAST_PREPARE_LIMIT_S" || status=$?
  if ((status != 0)); then
    OUTLAST_WHY="the job's prepare step failed: $(tail -n 1 "$OUTLAST_LOCAL/attempt.0.log")"
    return "$status"
  fi
  # It has run; where that cannot be noted, the next job does it again.
  ol_shared touch "$marker" || ol_log_warn "cannot write $marker: the next job runs its prepare step again"
}

ol_attempt_begin() {
  local left_s
  OUTLAST_WHY=''
  OUTLAST_ATTEMPT=$((OUTLAST_ATTEMPT + 1))
  # The ranks' words can be gigabytes: on the node's disk. What the watch keeps of them stays with the state.
  OUTLAST_LOG=$OUTLAST_LOCAL/attempt.$OUTLAST_ATTEMPT.log
  OUTLAST_SAID=$OUTLAST_STATE/attempt.$OUTLAST_ATTEMPT.said
  : >"$OUTLAST_LOG"
  : >"$OUTLAST_SAID"
  rm -f "$OUTLAST_STATE/asked" "$OUTLAST_LOCAL/stop"
  ol_pulse_begin
  ol_progress_reset
  _ol_attempt_nodes || return
  _ol_attempt_choose || return
  ol_pins_begin
  _ol_attempt_arrange || return
  ol_ledger_add staged step:="${OUTLAST_RESUME_STEP:-0}" "${OUTLAST_BROUGHT[@]}"
  ol_pins_end || return "$(($? == 1 ? 5 : $?))"
  _ol_attempt_master || return 1
  OUTLAST_PORT=$(_ol_attempt_port)
  left_s=$(ol_deadline_left)
  printf -v OUTLAST_DEADLINE_S '%(%s)T' -1
  OUTLAST_DEADLINE_S=$((OUTLAST_DEADLINE_S + left_s))
  OUTLAST_TOKEN=$OUTLAST_JOB_ID.$OUTLAST_RESTART.$OUTLAST_GENERATION.$OUTLAST_ATTEMPT
  _ol_attempt_command
  printf -v OUTLAST_LAUNCH_S '%(%s)T' -1
  _ol_attempt_launch "$OUTLAST_MASTER"
  ol_ledger_add launched step:="${OUTLAST_RESUME_STEP:-0}" nodes:="$OUTLAST_NODES" hosts="$OUTLAST_NODE_LIST" port:="$OUTLAST_PORT" master="$OUTLAST_MASTER"
  ol_log_info "attempt $OUTLAST_ATTEMPT: launched from ${OUTLAST_RESUME_STEP:+checkpoint }${OUTLAST_RESUME_STEP:-nothing}, $left_s s to train"
}
