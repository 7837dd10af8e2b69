#!/bin/bash -l
#SBATCH --job-name=1b-32n
#SBATCH --account=ABC123
#SBATCH --nodes=32
#SBATCH --time=24:00:00
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --export=NONE
#SBATCH --signal=B:USR1@660
#SBATCH --requeue
# Rendered by bin/render for slurm: change the site or the job file, not this one.
# shellcheck disable=SC2034,SC2329  # every job carries all settings and tools, and not every job uses each
# ---- settings ---------------------------------------------------------------------------------------
USER=${USER:-$(id -un)}  # a login shell sets it, a bare environment doesn't
OUTLAST_VERSION='0.1.0'
OUTLAST_SITE='slurm'
OUTLAST_SCHEDULER='slurm'
OUTLAST_JOB='1b-32n'
OUTLAST_RUN='1b-32n'
OUTLAST_RUNS_DIR="$HOME"'/outlast'
OUTLAST_PROJECT_DIR=''
OUTLAST_NODES=32
OUTLAST_SPARES=0
OUTLAST_WALLTIME_S=86400
OUTLAST_QUEUE='default'
OUTLAST_EXCLUDE=''
OUTLAST_CHAIN=1
OUTLAST_SUCCESSOR='end'

OUTLAST_LOCAL_BASE='/tmp'
OUTLAST_RANKS_PER_NODE=8
OUTLAST_GPU_ARCH=''
OUTLAST_THREADS=0
OUTLAST_NET_INTERFACES=(ib0 ib1 ib2 ib3)
OUTLAST_LAUNCH_ARGS=(--gpu-bind=none)
OUTLAST_ONLINE=0
OUTLAST_PROXY=''
OUTLAST_NO_PROXY=''
OUTLAST_DETERMINISM=0

OUTLAST_COMMAND=(python3 -u train.py --output_dir '{ckpt_dir}' --run_name '{run}' --max_steps 50000 --per_device_train_batch_size 8 --learning_rate 3e-4 --bf16 true --logging_steps 10 --save_strategy steps --save_steps 500 --save_total_limit 3 '{resume}')
OUTLAST_PRESET='hf'
OUTLAST_RESUME_ARGS=(--resume_from_checkpoint '{ckpt}')
OUTLAST_STEP_REGEX='\| *([0-9]+)/50000 \['
OUTLAST_STEP_ZERO_COUNTS=0
OUTLAST_TARGET_STEP=50000
OUTLAST_FINISH_REGEX=''
OUTLAST_SAVE_SIGNAL=''
OUTLAST_SAVES_ON_STOP=0

OUTLAST_STORAGE='shared'
OUTLAST_SHARDED=0
OUTLAST_CKPT_PREFIX='checkpoint-'
OUTLAST_CKPT_COMPLETE='trainer_state.json'
OUTLAST_CKPT_QUIET_S=30
OUTLAST_CKPT_KEEP=3
OUTLAST_CKPT_INTERVAL_S=1800

OUTLAST_MARGIN_S=600
OUTLAST_STARTUP_S=600
OUTLAST_STOP_WAIT_S=120
OUTLAST_TRAIN_AT_MOST_S=0
OUTLAST_POLL_S=30
OUTLAST_PREPARE_LIMIT_S=3600

OUTLAST_ATTEMPTS=3
OUTLAST_STUCK_JOBS=3
OUTLAST_SAME_FAILURE=3
OUTLAST_RAPID_S=600
OUTLAST_RAPID_WAIT_S=60
OUTLAST_MAX_JOBS=0
OUTLAST_MAX_NODE_HOURS=0
OUTLAST_END_DATE=''
OUTLAST_MAIL_TO=''
OUTLAST_MAIL_COMMAND=''

OUTLAST_PYTHON='/usr/bin/python3.11'
OUTLAST_PYTHON_PATH='/opt/outlast/.venv/bin/python'
OUTLAST_ROOT='/opt/outlast'

# ---- the story --------------------------------------------------------------------------------------
# No -e: a supervisor that dies of a grep without a match saves nobody.
main() {
  set -uo pipefail
  OUTLAST_START_DIR=$PWD OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_STEP=''
  trap 'ol_watch_signal TERM' TERM
  trap 'ol_watch_signal USR1' USR1
  trap ol_settle_unexpected EXIT
  ol_run_begin "$0" || exit 1
  cd / || exit 1
  if ol_main_open; then
    ol_main_insure
    while [[ -z $OUTLAST_THEN || $OUTLAST_THEN == relaunch ]]; do
      ol_main_attempt
    done
  fi
  ol_settle
  return "$OUTLAST_EXIT"
}

# lib/main.sh - the parts of a job's story, in the order in which main tells them
#
# Functions
#   ol_main_open       run folder, history, lease, helpers, guards. 0 go on; 1 OUTLAST_THEN says what instead
#   ol_main_insure     successor = "launch": the next job waits from now on, in case this one is lost
#   ol_main_attempt    one launch, from the choice of a checkpoint to the decision what follows
#
# Sets     OUTLAST_PARENT OUTLAST_DURABLE_AT_START OUTLAST_DURABLE_STEP OUTLAST_GENERATION_MINE OUTLAST_MARGIN_S
# Needs    log, bounded, ledger, history, run, lease, deadline, courier, guard, attempt, watch, ending, decide, successor, py
# Sourcing it defines the functions above and does nothing else.

# A frozen file system thaws, mostly. After half an hour the nodes are given back and a later job tries again.
_ol_main_find_run() {
  local status begun_s now_s
  printf -v begun_s '%(%s)T' -1
  while :; do
    status=0
    ol_run_open && ol_history_load || status=$?
    ((status != 0)) || return 0
    if ((status == 1)); then
      ol_decide_leave "the run's folder cannot be used, see above"
      return 1
    fi
    ol_log_warn "the shared file system does not answer; trying again"
    printf -v now_s '%(%s)T' -1
    if ((now_s - begun_s > 1800)) || ol_deadline_is_near "$OUTLAST_STARTUP_S" || ! ol_run_pause 10; then
      ol_main_interrupted "the shared file system does not answer"
      return 1
    fi
  done
}

# The job is told to end, or has no time left, before anything was launched.
ol_main_interrupted() { # WHY
  if [[ -e $OUTLAST_STATE/term && -z ${OUTLAST_GENERATION_MINE:-} ]]; then
    ol_decide_leave "told to end before the run was ours"
    return
  elif [[ -e $OUTLAST_STATE/term ]]; then
    ol_ending_signalled
  elif [[ -e $OUTLAST_STATE/stop ]]; then
    _ol_ending_is stopped "control/stop"
  elif [[ -e $OUTLAST_STATE/deadline ]]; then
    _ol_ending_is walltime "our deadline, before a launch ($1)"
  else
    _ol_ending_is storage "$1"
  fi
  ol_decide
}

_ol_main_know() {
  local answer status=0
  OUTLAST_PARENT=$(ol_history_parent)
  answer=$(ol_checkpoint_durable) || status=$?
  OUTLAST_DURABLE_AT_START=0
  ((status != 0)) || OUTLAST_DURABLE_AT_START=${answer%% *}
  OUTLAST_DURABLE_STEP=$OUTLAST_DURABLE_AT_START
  # The sidecar need not copy what a node is given to resume from.
  printf '%d\n' "$OUTLAST_DURABLE_AT_START" >"$OUTLAST_STATE/durable_step"
}

# What cut off the last job was too short for its save.
_ol_main_margin() {
  local last_s cap_s=$((OUTLAST_WALLTIME_S / 3))
  last_s=$(ol_history_margin_s)
  ((last_s * 2 <= OUTLAST_MARGIN_S)) || OUTLAST_MARGIN_S=$((last_s * 2 < cap_s ? last_s * 2 : cap_s))
}

_ol_main_own() {
  local status=0
  ol_lease_take || status=$?
  case $status in
    0) OUTLAST_GENERATION_MINE=1 ;;
    1) ol_decide_leave "$OUTLAST_WHY" ;;
    *) ol_main_interrupted "${OUTLAST_WHY:-the lease could not be taken}" ;;
  esac
  return "$status"
}

_ol_main_may_start() {
  local status=0
  ol_guard_may_start || status=$?
  ((status != 0)) || return 0
  # A question without an answer is not a no, but nothing may start on it either.
  ((status != 2)) || OUTLAST_WHY="the run's control files cannot be read"
  if [[ -n $OUTLAST_HOLD ]]; then
    ol_decide_hold "$OUTLAST_WHY"
  else
    ol_decide_leave "$OUTLAST_WHY"
  fi
  return 1
}

ol_main_open() {
  _ol_main_find_run || return
  _ol_main_know
  _ol_main_own || return
  _ol_main_margin
  ol_deadline_start
  ol_courier_start
  _ol_main_may_start || return
  ol_ledger_add started host="${HOSTNAME:-?}" nodes:="${#OUTLAST_HOSTS[@]}" \
    durable_step:="$OUTLAST_DURABLE_AT_START" generation:="$((10#$OUTLAST_GENERATION))" version="$OUTLAST_VERSION"
  ol_py_install >/dev/null & # nobody waits for the reports' tools
  _ol_main_prepare
}

_ol_main_prepare() {
  local status=0
  ol_attempt_prepare || status=$?
  ((status != 0)) || return 0
  if ((status == 2)); then
    ol_main_interrupted "prepare"
  else
    _ol_ending_is launch "$OUTLAST_WHY, code 72"
    ol_decide
  fi
  return 1
}

ol_main_insure() {
  [[ $OUTLAST_CHAIN == 1 && $OUTLAST_SUCCESSOR == launch ]] || return 0
  ol_successor_submit 0 || ol_log_warn "no insurance: ${OUTLAST_WHY:-no answer}"
}

# The wait before a repeated try; people and the clock may end it.
_ol_main_wait() {
  local tick
  ((${OUTLAST_DELAY_S:-0} > 0)) || return 0
  ol_log_info "waiting $OUTLAST_DELAY_S s before the next attempt (rapid crash)"
  ol_mail_send "rapid crash" "$OUTLAST_EVIDENCE; the next attempt comes in $OUTLAST_DELAY_S s"
  for ((tick = 0; tick < OUTLAST_DELAY_S; tick++)); do
    [[ ! -e $OUTLAST_STATE/term && ! -e $OUTLAST_STATE/stop && ! -e $OUTLAST_STATE/deadline ]] || return 2
    sleep 1
  done
}

ol_main_attempt() {
  local status=0
  if [[ $OUTLAST_THEN == relaunch ]]; then
    # What the last attempt left complete becomes durable before a checkpoint is chosen.
    ol_sidecar_drain 300
    _ol_main_wait || {
      OUTLAST_CLASS=''
      ol_main_interrupted "waiting for the next attempt"
      return
    }
  fi
  OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_FINGERPRINT=''
  ol_attempt_begin || status=$?
  case $status in
    0)
      ol_watch
      ol_ending_attempt
      [[ -n $OUTLAST_THEN ]] || ol_decide
      ;;
    2 | 3) ol_main_interrupted "$OUTLAST_WHY" ;;
    *)
      OUTLAST_LAUNCH_CODE='' OUTLAST_RAN_S=0 OUTLAST_FINGERPRINT=launch
      _ol_ending_is launch "$OUTLAST_WHY"
      ol_decide
      ;;
  esac
}

# ---- this job and this site -------------------------------------------------------------------------
# Variables of the job file and its preset.
ol_job_env() {
  :
}

# The job's own lines, before each launch.
ol_job_setup() {
  :
}

# sites/slurm/env.sh - an unknown Slurm cluster: no modules, no variables
#
# Functions
#   ol_site_modules   nothing; put `module load ...` into the job's `setup`
#   ol_site_env       nothing: NCCL's defaults fit InfiniBand
#
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  :
}

# ---- the tools --------------------------------------------------------------------------------------
# lib/attempt.sh - one launch: one checkpoint for all nodes, a fresh rendezvous, the ranks
#
# Functions
#   ol_attempt_begin       choose the checkpoint, put it on every node, find the master, start the launcher
#                          0 launched; 1 could not (OUTLAST_WHY); 2 the job is told to end; 3 no file system
#   ol_attempt_prepare     the user's once-per-run step, under its own limit; same status
#
# Sets     OUTLAST_ATTEMPT OUTLAST_RESUME_STEP (empty: a fresh start) OUTLAST_RESUME OUTLAST_NODE_LIST
#          OUTLAST_LAUNCH_PID OUTLAST_LAUNCH_S OUTLAST_LOG OUTLAST_WHY
# Needs    log, bounded, ledger, run, checkpoint, courier, deadline, environment, shim, progress
# Sourcing it defines the functions above and does nothing else.

_ol_attempt_nodes() {
  local IFS=,
  OUTLAST_NODE_LIST="${OUTLAST_HOSTS[*]:0:OUTLAST_NODES}"
}

# The newest durable checkpoint. A file system that does not answer is waited for, half an hour at most:
# without it a start would be a silent fresh start.
_ol_attempt_choose() {
  local answer status begun_s now_s
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
        return 0
        ;;
    esac
    OUTLAST_WHY="the shared file system does not answer"
    ol_log_warn "$OUTLAST_WHY; waiting"
    printf -v now_s '%(%s)T' -1
    ((now_s - begun_s < 1800)) && ! ol_deadline_is_near "$OUTLAST_STARTUP_S" || return 3
    ol_run_pause 10 || return 2
  done
}

# The same step on every node, and nothing newer: two ranks that resume from different steps train garbage.
_ol_attempt_stage() {
  local name=${OUTLAST_RESUME_FROM##*/} pid
  if [[ $OUTLAST_STORAGE == shared ]]; then
    ol_checkpoint_drop_torn
    OUTLAST_RESUME=${OUTLAST_RESUME_FROM:-}
    return 0
  fi
  OUTLAST_RESUME=${OUTLAST_RESUME_FROM:+$OUTLAST_CKPT_DIR/$name}
  # shellcheck disable=SC2016 # expanded on the node
  ol_sched_on_each "$OUTLAST_STARTUP_S" "$OUTLAST_NODE_LIST" bash -c \
    "$(declare -f ol_checkpoint_arrange); "'umask 077; mkdir -p "$4" && ol_checkpoint_arrange "$1" "$2" "$3" || { echo "outlast: cannot put the checkpoint on $HOSTNAME" >&2; exit 1; }' _ \
    "$OUTLAST_RESUME_FROM" "$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_LOCAL" &
  pid=$!
  _ol_attempt_await "$pid" "$((OUTLAST_STARTUP_S + 10))"
}

# Status 1: failed or took longer than SEC; 2: told to end meanwhile.
_ol_attempt_await() { # PID SEC
  local tick
  for ((tick = 0; tick < $2 * 5; tick++)); do
    kill -0 "$1" 2>/dev/null || {
      wait "$1" || return 1
      return 0
    }
    if [[ -e $OUTLAST_STATE/term || -e $OUTLAST_STATE/stop || -e $OUTLAST_STATE/deadline ]]; then
      kill "$1" 2>/dev/null
      return 2
    fi
    sleep 0.2
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

# The user's command with its placeholders filled; `{resume}` alone becomes the preset's words or nothing.
_ol_attempt_command() {
  local word words=() ranks=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE))
  for word in "${OUTLAST_COMMAND[@]}"; do
    if [[ $word == '{resume}' ]]; then
      [[ -z $OUTLAST_RESUME ]] || words+=("${OUTLAST_RESUME_ARGS[@]//'{ckpt}'/$OUTLAST_RESUME}")
      continue
    fi
    word=${word//'{ckpt_dir}'/$OUTLAST_CKPT_DIR}
    word=${word//'{nodes}'/$OUTLAST_NODES}
    word=${word//'{ranks}'/$ranks}
    words+=("${word//'{run}'/$OUTLAST_RUN}")
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
  export OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_ATTEMPT OUTLAST_RANKS_PER_NODE OUTLAST_CKPT_DIR OUTLAST_RESUME OUTLAST_RESUME_STEP
  export OUTLAST_STOP_FILE=$OUTLAST_LOCAL/stop OUTLAST_DEADLINE=${OUTLAST_DEADLINE_S:-}
  _ol_attempt_library_environment "$master"
  ol_site_env
}

_ol_attempt_library_environment() {
  if [[ $OUTLAST_ONLINE == 1 ]]; then
    ol_environment_online "$OUTLAST_PROXY" "$OUTLAST_NO_PROXY"
  else
    ol_environment_offline
  fi
  ol_environment_caches "$OUTLAST_LOCAL/cache"
  ol_environment_threads "$OUTLAST_THREADS"
  ol_environment_wandb "$OUTLAST_RUN"
  ol_environment_gpu "$OUTLAST_GPU_ARCH"
  [[ $OUTLAST_DETERMINISM == 0 ]] || ol_environment_deterministic
  ol_environment_network "$1" "${OUTLAST_NET_INTERFACES[@]}"
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
  (
    trap - TERM USR1 EXIT
    _ol_attempt_environment "$1"
    cd "$OUTLAST_PROJECT" || exit 72
    ol_job_setup || {
      printf 'outlast: a line of setup failed\n' >&2
      exit 72
    }
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
  ) >"$OUTLAST_STATE/attempt.0.log" 2>&1 &
  pid=$!
  _ol_attempt_await "$pid" "$OUTLAST_PREPARE_LIMIT_S" || status=$?
  if ((status != 0)); then
    OUTLAST_WHY="the job's prepare step failed: $(tail -n 1 "$OUTLAST_STATE/attempt.0.log")"
    return "$status"
  fi
  ol_shared touch "$marker"
}

ol_attempt_begin() {
  local left_s status
  OUTLAST_WHY=''
  OUTLAST_ATTEMPT=$((OUTLAST_ATTEMPT + 1))
  OUTLAST_LOG=$OUTLAST_STATE/attempt.$OUTLAST_ATTEMPT.log
  : >"$OUTLAST_LOG"
  : >"$OUTLAST_LOG.said"
  rm -f "$OUTLAST_STATE/asked" "$OUTLAST_LOCAL/stop"
  ol_progress_reset
  _ol_attempt_nodes
  _ol_attempt_choose || return
  _ol_attempt_stage || {
    status=$?
    OUTLAST_WHY="could not put checkpoint ${OUTLAST_RESUME_STEP:-} on every node"
    return "$status"
  }
  ol_ledger_add staged step:="${OUTLAST_RESUME_STEP:-0}"
  _ol_attempt_master || return 1
  OUTLAST_PORT=$(_ol_attempt_port)
  left_s=$(ol_deadline_left)
  printf -v OUTLAST_DEADLINE_S '%(%s)T' -1
  OUTLAST_DEADLINE_S=$((OUTLAST_DEADLINE_S + left_s))
  _ol_attempt_command
  printf -v OUTLAST_LAUNCH_S '%(%s)T' -1
  _ol_attempt_launch "$OUTLAST_MASTER"
  ol_ledger_add launched step:="${OUTLAST_RESUME_STEP:-0}" hosts="$OUTLAST_NODE_LIST" port:="$OUTLAST_PORT" master="$OUTLAST_MASTER"
  ol_log_info "attempt $OUTLAST_ATTEMPT: launched from ${OUTLAST_RESUME_STEP:+checkpoint }${OUTLAST_RESUME_STEP:-nothing}, $left_s s to train"
}

# lib/watch.sh - while the ranks run: one look a second, at node-local files only
#
# Functions
#   ol_watch                 until the launcher has ended; sets OUTLAST_LAUNCH_CODE
#   ol_watch_signal NAME     trap handler: notes the signal. What follows is decided by the loop
#   ol_watch_first_death     print the shim's line of the rank that died first, by time, or nothing
#
# Sets     OUTLAST_LAUNCH_CODE OUTLAST_RAN_S
# Needs    log, ledger, stop, progress, deadline, ending, courier
# Sourcing it defines the functions above and does nothing else.

ol_watch_signal() {
  case $1 in
    TERM) printf '%(%s)T\n' -1 >"$OUTLAST_STATE/term" ;;
    # A hint that the end is near (--signal). The timer asks the scheduler again.
    USR1) : >"$OUTLAST_STATE/ask" ;;
  esac
}

ol_watch_first_death() {
  [[ -e $OUTLAST_LOG.said ]] || return 0
  grep -aoE 'outlast: rank [0-9]+ on [A-Za-z0-9._-]+ ended with (code|signal) [A-Z0-9]+ at [0-9]+' "$OUTLAST_LOG.said" |
    sort -s -n -k 11 | head -n 1
}

_ol_watch_said() { [[ -s $OUTLAST_LOG.said ]] && grep -qaE -- "$1" "$OUTLAST_LOG.said"; }

# TERM for the job, or for its ranks, from somebody else: the scheduler knows why.
_ol_watch_term() {
  [[ -e $OUTLAST_STATE/term ]] || _ol_watch_said 'outlast: rank 0 got TERM from outside' || return 0
  if [[ -z $OUTLAST_CLASS ]]; then
    ol_ledger_add signal name=TERM from=outside
    ol_ending_signalled
    ol_stop_ask outside
  fi
  # The script itself was told: KILL may be five seconds away, so what must follow is done now.
  [[ ! -e $OUTLAST_STATE/term || -n $OUTLAST_THEN ]] || ol_decide
}

_ol_watch_wishes() {
  if [[ -e $OUTLAST_STATE/lost ]]; then
    ol_stop_ask lost
  elif [[ -e $OUTLAST_STATE/stop ]]; then
    ol_stop_ask stop
  elif [[ -e $OUTLAST_STATE/deadline ]]; then
    ol_stop_ask deadline
  elif [[ -e $OUTLAST_STATE/save ]]; then
    rm -f "$OUTLAST_STATE/save"
    _ol_watch_save
  fi
}

# A signal that the trainer does not expect would kill it.
_ol_watch_save() {
  if [[ -n $OUTLAST_SAVE_SIGNAL ]]; then
    ol_log_info "asking the training to save"
    ol_sched_signal_launch "$OUTLAST_LAUNCH_PID" save
  else
    ol_log_warn "this trainer cannot be asked to save (preset $OUTLAST_PRESET has no save_signal)"
    ol_ledger_add warned text="control/save: preset $OUTLAST_PRESET has no save_signal"
  fi
}

# After a rank's death the others wait for it in a collective, for minutes or for ever. They get ten seconds
# to say what they saw.
_ol_watch_deaths() {
  local now_s died_s line
  [[ ! -e $OUTLAST_STATE/asked ]] || return 0
  _ol_watch_said 'outlast: rank [0-9]+ on .* ended with' || return 0
  line=$(ol_watch_first_death)
  died_s=${line##* }
  printf -v now_s '%(%s)T' -1
  ((now_s - ${died_s:-now_s} < 10)) || ol_stop_ask peers
}

# The first step after a resume must lie beyond the promised one: a silent fresh start is the worst restart.
_ol_watch_resume() {
  [[ -n $OUTLAST_FIRST_STEP && $OUTLAST_FIRST_SEEN == 0 ]] || return 0
  OUTLAST_FIRST_SEEN=1
  ol_ledger_add first_step step:="$OUTLAST_FIRST_STEP"
  [[ -n $OUTLAST_RESUME_STEP ]] || return 0
  ((OUTLAST_FIRST_STEP < OUTLAST_RESUME_STEP)) || return 0
  ol_log_error "the trainer was told to resume at step $OUTLAST_RESUME_STEP and began at $OUTLAST_FIRST_STEP"
  ol_stop_ask wrong_resume
}

_ol_watch_progress() {
  ol_progress_look "$OUTLAST_LOG"
  _ol_watch_resume
  [[ -n $OUTLAST_STEP ]] && ((OUTLAST_WATCH_TICK % 60 == 0)) || return 0
  ol_ledger_add progress step:="$OUTLAST_STEP"
}

# A trainer that cannot save on request is stopped right after its last useful checkpoint: when the next
# one could not be complete in time, further steps would only be lost.
_ol_watch_last_useful() {
  local step at_s
  [[ $OUTLAST_SAVES_ON_STOP == 0 && -z $OUTLAST_SAVE_SIGNAL && ! -e $OUTLAST_STATE/asked ]] || return 0
  [[ -s $OUTLAST_STATE/local_step ]] || return 0
  read -r step at_s <"$OUTLAST_STATE/local_step"
  [[ $step != "${OUTLAST_LAST_CKPT:-}" ]] || return 0
  if [[ -n ${OUTLAST_LAST_CKPT:-} ]] && ol_deadline_is_near "$((at_s - OUTLAST_LAST_CKPT_S))"; then
    printf '%(%s)T checkpoint %d is the last one that fits\n' -1 "$step" >"$OUTLAST_STATE/deadline"
    ol_stop_ask deadline
  fi
  OUTLAST_LAST_CKPT=$step OUTLAST_LAST_CKPT_S=$at_s
}

ol_watch() {
  local now_s
  OUTLAST_WATCH_TICK=0 OUTLAST_FIRST_SEEN=0 OUTLAST_STOP_REASON='' OUTLAST_LAST_CKPT=''
  while kill -0 "$OUTLAST_LAUNCH_PID" 2>/dev/null; do
    _ol_watch_progress
    _ol_watch_term
    _ol_watch_wishes
    _ol_watch_deaths
    _ol_watch_last_useful
    ol_stop_push
    OUTLAST_WATCH_TICK=$((OUTLAST_WATCH_TICK + 1))
    # A foreground sleep: a trap runs when it ends, and none is lost (slurm-facts 1, 2).
    sleep 1
  done
  wait "$OUTLAST_LAUNCH_PID"
  OUTLAST_LAUNCH_CODE=$?
  printf -v now_s '%(%s)T' -1
  OUTLAST_RAN_S=$((now_s - OUTLAST_LAUNCH_S))
  # The drain begins while we still think: nobody writes any more.
  ol_sidecar_hurry
  _ol_watch_progress
  _ol_watch_term
}

# lib/stop.sh - end the ranks, gently first
#
# Functions
#   ol_stop_ask REASON     ask the training to stop; only the first reason counts
#   ol_stop_push           go on with a stop that was asked for: call it again and again (the watch does)
#   ol_stop_asked          print the reason, or nothing
#
# Reasons: deadline, stop, outside (somebody signalled the job), lost (the run is another job's),
# wrong_resume, peers (a rank died, the others wait for it for ever).
# A trainer that can save on request gets the stop file, then TERM; one that cannot gets TERM at once, as
# soon as no checkpoint is half-written. Who is still there after STOP_WAIT_S is killed.
#
# Files    OUTLAST_STATE/asked   `REASON`, written before anybody is told: an exit after it was asked for
# Reads    OUTLAST_STOP_WAIT_S OUTLAST_SAVES_ON_STOP OUTLAST_SAVE_SIGNAL OUTLAST_LAUNCH_PID OUTLAST_LOCAL
# Needs    log, ledger, checkpoint
# Sourcing it defines the functions above and does nothing else.

ol_stop_asked() {
  local reason=''
  [[ ! -e $OUTLAST_STATE/asked ]] || read -r reason <"$OUTLAST_STATE/asked"
  printf '%s\n' "$reason"
}

ol_stop_ask() {
  local reason=$1
  [[ ! -e $OUTLAST_STATE/asked ]] || return 0
  printf '%s\n' "$reason" >"$OUTLAST_STATE/asked"
  OUTLAST_STOP_REASON=$reason OUTLAST_STOP_STAGE=0
  printf -v OUTLAST_STOP_S '%(%s)T' -1
  ol_ledger_add signal name=stop from="$reason"
  ol_log_info "asking the training to stop: $reason"
  : >"$OUTLAST_LOCAL/stop"
  if [[ -n $OUTLAST_SAVE_SIGNAL && $OUTLAST_SAVES_ON_STOP == 0 ]]; then
    ol_sched_signal_launch "$OUTLAST_LAUNCH_PID" save
  fi
}

# When to go from asking to TERM: seconds after the request.
_ol_stop_term_after() {
  case $OUTLAST_STOP_REASON in
    lost | wrong_resume | peers) echo 0 ;; # nothing that is worth saving
    *)
      if [[ $OUTLAST_SAVES_ON_STOP == 1 || -n $OUTLAST_SAVE_SIGNAL ]]; then
        echo "$((OUTLAST_STOP_WAIT_S / 2))"
      elif ol_checkpoint_is_written; then
        echo "$((OUTLAST_STOP_WAIT_S * 3 / 4))"
      else
        echo 0
      fi
      ;;
  esac
}

ol_stop_push() {
  local now_s waited_s term_s limit_s=$OUTLAST_STOP_WAIT_S
  [[ -n ${OUTLAST_STOP_REASON:-} ]] || return 0
  [[ $OUTLAST_STOP_REASON != peers && $OUTLAST_STOP_REASON != lost ]] || limit_s=10
  printf -v now_s '%(%s)T' -1
  waited_s=$((now_s - OUTLAST_STOP_S))
  if ((OUTLAST_STOP_STAGE == 0)); then
    term_s=$(_ol_stop_term_after)
    ((waited_s >= term_s)) || return 0
    OUTLAST_STOP_STAGE=1
    ol_sched_signal_launch "$OUTLAST_LAUNCH_PID" stop
  elif ((OUTLAST_STOP_STAGE == 1 && waited_s >= limit_s)); then
    OUTLAST_STOP_STAGE=2
    ol_log_warn "the ranks are still there after $waited_s s: killing them"
    ol_sched_kill_launch "$OUTLAST_LAUNCH_PID"
  fi
}

# lib/ending.sh - how did it end? The first row that applies; the evidence is kept (docs/endings.md)
#
# Functions; both set OUTLAST_CLASS, OUTLAST_EVIDENCE and OUTLAST_FINGERPRINT
#   ol_ending_signalled    the job or its ranks got TERM from outside: rows that the scheduler decides
#   ol_ending_attempt      an attempt has ended
#   ol_ending_nodes        print the nodes that the launcher or the scheduler call dead, one a line
#
# An exit code alone proves nothing. A question without an answer is unknown, never no.
# Needs    log, bounded, stop, watch, progress, checkpoint
# Sourcing it defines the functions above and does nothing else.

_ol_ending_is() { # CLASS EVIDENCE...
  OUTLAST_CLASS=$1
  shift
  OUTLAST_EVIDENCE=$*
}

# The controller has to answer before KILL comes; a second question is worth it when the first has no answer.
_ol_ending_ask() {
  local status=0
  OUTLAST_SCHED_SAYS=$(OUTLAST_QUERY_LIMIT_S=12 ol_sched_state "$OUTLAST_JOB_ID") || status=$?
  return "$status"
}

ol_ending_signalled() {
  _ol_ending_ask || {
    _ol_ending_is ended_unknown "TERM from outside, and the scheduler does not answer"
    return
  }
  case $OUTLAST_SCHED_SAYS in
    *verdict=timelimit*)
      # Our own deadline was there first: the limit only overtook the save.
      if [[ -e $OUTLAST_STATE/deadline && -e $OUTLAST_STATE/asked ]]; then
        _ol_ending_is walltime "our deadline, then the scheduler's time limit"
      else
        _ol_ending_is walltime_late "the scheduler's time limit, before our deadline"
      fi
      ;;
    *verdict=requeued*) _ol_ending_is requeued "the scheduler is requeueing the job" ;;
    *verdict=preempted*) _ol_ending_is preempted "the scheduler preempts the job" ;;
    *verdict=node*) _ol_ending_is node "the scheduler says that a node failed" ;;
    *verdict=cancelled*) _ol_ending_is cancelled "the scheduler ends the job, for no limit, failure or preemption: somebody cancelled it" ;;
    *) _ol_ending_is cancelled "somebody sent TERM while the job was running" ;;
  esac
}

ol_ending_nodes() {
  {
    sed -nE 's/.*(srun|salloc): error: Node failure on ([A-Za-z0-9._-]+).*/\2/p' "$OUTLAST_LOG.said"
    ol_sched_down_nodes "${OUTLAST_HOSTS[@]}"
  } 2>/dev/null | sort -u | while read -r node; do
    # Names out of a log are data: only our own hosts count.
    [[ " ${OUTLAST_HOSTS[*]} " != *" $node "* ]] || printf '%s\n' "$node"
  done
}

# Stable over hosts, ranks and numbers: how the first rank died and the error's name.
_ol_ending_fingerprint() { # WHAT
  local name
  name=$(tail -c 200000 "$OUTLAST_LOG" | grep -aoE '\b[A-Z][A-Za-z_.]*(Error|Exception|Interrupt)\b' | tail -n 1)
  OUTLAST_FINGERPRINT="$1${name:+/$name}"
}

# Words of errno, in the log's last part. Prints the line.
_ol_ending_storage() {
  tail -c 200000 "$OUTLAST_LOG" | grep -aE 'No space left on device|Disk quota exceeded|Input/output error|Stale file handle|Read-only file system|LustreError' |
    tail -n 1
}

# Is the shared file system full for us? 0 yes, 1 no, 2 no answer.
_ol_ending_shared_is_full() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'f=$1/.probe.$$; if head -c 1048576 /dev/zero >"$f" 2>/dev/null; then rm -f "$f"; exit 1; fi; rm -f "$f"; exit 0' _ \
    "$OUTLAST_RUN_DIR"
}

_ol_ending_by_request() { # REASON
  case $1 in
    stop) _ol_ending_is stopped "control/stop" ;;
    deadline) _ol_ending_is walltime "our deadline: $(cut -d' ' -f2- "$OUTLAST_STATE/deadline")" ;;
    lost) _ol_ending_is superseded "a newer lease than $OUTLAST_GENERATION" ;;
    wrong_resume) _ol_ending_is wrong_resume "first step $OUTLAST_FIRST_STEP, promised $OUTLAST_RESUME_STEP" ;;
    *) return 1 ;;
  esac
}

# The step itself was cancelled by a person: no rank has said how it died, and nobody of us killed it.
_ol_ending_step_was_cancelled() {
  [[ -z $1 ]] && grep -qaE 'STEP [0-9.]+ ON [^ ]+ CANCELLED AT [0-9T:-]+ ?(\*\*\*|$)' "$OUTLAST_LOG.said"
}

_ol_ending_crash() { # FIRST_DEATH
  local code=$OUTLAST_LAUNCH_CODE what storage
  what=${1##* ended with }
  what=${what% at *}
  [[ -n $1 ]] || what="code $code"
  _ol_ending_fingerprint "$what"
  if ! grep -qaE 'outlast: rank 0 of [0-9]+ on .* started' "$OUTLAST_LOG.said" || [[ $what =~ ^code\ 12[67]$ ]]; then
    _ol_ending_is launch "${1:-the launcher ended with code $code, no rank started}"
    return
  fi
  storage=$(_ol_ending_storage)
  if [[ -n $storage ]]; then
    _ol_ending_is storage "$storage"
    return
  fi
  _ol_ending_is crash "${1:-the launcher ended with code $code}"
}

ol_ending_attempt() {
  local death reason newest finished=0 made=''
  OUTLAST_FINGERPRINT=''
  # What the scheduler said when TERM came stands, unless training was over by then.
  [[ -z ${OUTLAST_CLASS:-} ]] || return 0
  death=$(ol_watch_first_death)
  reason=$(ol_stop_asked)
  newest=$(ol_checkpoint_complete 0 | tail -n 1)
  ol_progress_is_finished "$OUTLAST_LOG" "${newest#* }" "$reason" || finished=$?
  [[ -z $newest || ${newest%% *} -le ${OUTLAST_RESUME_STEP:-0} ]] || made=checkpoint
  [[ -z $OUTLAST_STEP ]] || made="step $OUTLAST_STEP"
  if [[ $reason != wrong_resume && $reason != lost ]] && ((finished == 0)); then
    _ol_ending_is "done" "training is over${OUTLAST_STEP:+ at step $OUTLAST_STEP}"
  elif _ol_ending_by_request "$reason"; then
    :
  elif ((OUTLAST_LAUNCH_CODE == 0 && finished == 2)) && [[ -n $made ]]; then
    _ol_ending_is "done" "exit 0 that nobody asked for, after $made"
  elif ((OUTLAST_LAUNCH_CODE == 0)); then
    _ol_ending_is early_exit "exit 0 that nobody asked for, and nothing says that training is over"
  elif grep -qaE 'error: Node failure on ' "$OUTLAST_LOG.said"; then
    _ol_ending_is node "the launcher says: $(grep -aoE 'Node failure on [A-Za-z0-9._-]+' "$OUTLAST_LOG.said" | head -n 1)"
    OUTLAST_FINGERPRINT=node
  elif _ol_ending_step_was_cancelled "$death"; then
    _ol_ending_is cancelled "somebody cancelled the step: $(grep -aoE 'STEP [0-9.]+ ON [^ ]+ CANCELLED AT [^ ]+' "$OUTLAST_LOG.said" | head -n 1)"
  else
    _ol_ending_crash "$death"
  fi
}

# lib/decide.sh - what follows from an ending
#
# Functions
#   ol_decide               OUTLAST_CLASS -> OUTLAST_THEN, through the guards; writes the `ended` event and
#                           acts: hold, successor, removal of one
#   ol_decide_leave WHY     this job has nothing to do here
#   ol_decide_hold WHY      the run needs a person
#
# then: relaunch, submit, hold, stop (no further job, nothing is wrong), finish, leave
# Sets     OUTLAST_THEN OUTLAST_WHY
# Needs    log, bounded, ledger, history, guard, successor, deadline, ending, mail, run
# Sourcing it defines the functions above and does nothing else.

_ol_decide_by_class() {
  case $OUTLAST_CLASS in
    walltime | walltime_late | preempted | node) echo submit ;;
    requeued | superseded) echo leave ;;
    cancelled | ended_unknown) echo stop ;;
    stopped | early_exit | wrong_resume) echo hold ;;
    done) echo finish ;;
    launch) _ol_decide_launch ;;
    storage) _ol_decide_storage ;;
    crash) echo relaunch ;;
    internal) if ((OUTLAST_DURABLE_STEP > OUTLAST_DURABLE_AT_START)); then echo submit; else echo hold; fi ;;
    *) echo hold ;;
  esac
}

# Full: only a person can help. A stall passes, but not for this job when it could not even start.
_ol_decide_storage() {
  if _ol_ending_shared_is_full; then
    echo hold
  elif ((OUTLAST_ATTEMPT == 0)) || [[ -z ${OUTLAST_LAUNCH_PID:-} ]]; then
    echo submit
  else
    echo relaunch
  fi
}

# 126 and 127: the command is not there, no retry will bring it. Anything else deserves one.
_ol_decide_launch() {
  if [[ $OUTLAST_EVIDENCE =~ code\ (126|127|72)( |$) ]] || ((OUTLAST_ATTEMPT > 1)); then
    echo hold
  else
    echo relaunch
  fi
}

# A relaunch has to be worth it: there must be time to start and to reach a checkpoint.
_ol_decide_is_worth_it() {
  ((OUTLAST_ATTEMPT < OUTLAST_ATTEMPTS)) || return 1
  ! ol_deadline_is_near "$((OUTLAST_STARTUP_S + OUTLAST_CKPT_INTERVAL_S + $1))"
}

# The newest step that a next job could start from: durable, or complete and about to be copied.
_ol_decide_step() {
  local durable=$OUTLAST_DURABLE_AT_START newest
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  newest=$(ol_checkpoint_complete 0 | tail -n 1)
  newest=${newest%% *}
  ((${newest:-0} <= durable)) || durable=$newest
  OUTLAST_DURABLE_STEP=$durable
}

_ol_decide_guarded() {
  [[ $OUTLAST_THEN == relaunch || $OUTLAST_THEN == submit ]] || return 0
  if [[ $OUTLAST_CLASS != preempted ]] && ! ol_guard_may_repeat "$OUTLAST_DURABLE_STEP"; then
    OUTLAST_THEN=hold
    return
  fi
  OUTLAST_DELAY_S=$(ol_guard_delay_s)
  [[ $OUTLAST_CLASS != storage || $OUTLAST_THEN != submit ]] || OUTLAST_DELAY_S=1800
  if [[ $OUTLAST_THEN == relaunch ]] && ! _ol_decide_is_worth_it "$OUTLAST_DELAY_S"; then
    OUTLAST_THEN=submit
  fi
  if [[ $OUTLAST_THEN == submit && $OUTLAST_CHAIN == 0 ]]; then
    OUTLAST_THEN=stop
    OUTLAST_WHY="chaining is off"
  fi
}

_ol_decide_note() {
  ol_ledger_add ended class="$OUTLAST_CLASS" evidence="$OUTLAST_EVIDENCE" code:="${OUTLAST_LAUNCH_CODE:-}" \
    step:="${OUTLAST_STEP:-}" durable_step:="$OUTLAST_DURABLE_STEP" ran_s:="${OUTLAST_RAN_S:-0}" \
    fingerprint="${OUTLAST_FINGERPRINT:-}" margin_s:="$OUTLAST_MARGIN_S" then="$1"
}

_ol_decide_submit() {
  local status=0 nodes=()
  if [[ $OUTLAST_CLASS == node ]]; then
    mapfile -t nodes < <(ol_ending_nodes)
    ((${#nodes[@]} == 0)) || ol_ledger_add excluded nodes="${nodes[*]}" why="$OUTLAST_EVIDENCE"
  fi
  if [[ -n ${OUTLAST_NEXT_ID:-} ]] && ((${#nodes[@]} > 0)); then
    local list
    list=$(_ol_successor_exclude "${nodes[@]}")
    ol_sched_exclude "$OUTLAST_NEXT_ID" "$list"
  fi
  ol_successor_submit "${OUTLAST_DELAY_S:-0}" "${nodes[@]}" || status=$?
  case $status in
    1) ol_decide_hold "$OUTLAST_WHY" ;;
    2)
      OUTLAST_THEN=stop
      ol_log_error "$OUTLAST_WHY"
      ol_mail_send "no successor" "$OUTLAST_WHY"
      ;;
  esac
}

ol_decide_leave() {
  OUTLAST_THEN=leave OUTLAST_WHY=$1
  ol_log_info "leaving: $1"
  ol_ledger_add left why="$1"
}

# control/hold keeps further jobs from starting; the first line says why, the second how to go on.
ol_decide_hold() {
  local todo
  todo=$(ol_successor_command)
  OUTLAST_THEN=hold OUTLAST_WHY=$1
  ol_log_error "held: $1; when it is mended: $todo"
  ol_ledger_add held why="$1" todo="$todo"
  # shellcheck disable=SC2016 # expanded by the child
  [[ $OUTLAST_CLASS == stopped ]] ||
    ol_shared bash -c 'printf "%s\n%s\n" "$2" "$3" >"$1/control/hold"' _ "$OUTLAST_RUN_DIR" "$1" "$todo"
  ol_mail_send "held" "$1"$'\n'"To go on: $todo"
}

ol_decide() {
  OUTLAST_WHY='' OUTLAST_DELAY_S=0
  _ol_decide_step
  OUTLAST_THEN=$(_ol_decide_by_class)
  # The guards count this ending too, so it is written first, with what it asks for by itself.
  _ol_decide_note "$OUTLAST_THEN"
  ol_log_info "ended: $OUTLAST_CLASS ($OUTLAST_EVIDENCE)"
  _ol_decide_guarded
  case $OUTLAST_THEN in
    submit) _ol_decide_submit ;;
    hold)
      [[ $OUTLAST_SUCCESSOR != launch ]] || ol_successor_remove
      ol_decide_hold "${OUTLAST_WHY:-$OUTLAST_CLASS: $OUTLAST_EVIDENCE}"
      ;;
    finish) ol_successor_remove ;;
    stop)
      ol_successor_remove
      ol_log_info "no further job${OUTLAST_WHY:+ ($OUTLAST_WHY)}; to go on all the same: $(ol_successor_command)"
      [[ $OUTLAST_CLASS != ended_unknown ]] || ol_mail_send "ended, nobody knows why" "$OUTLAST_EVIDENCE"
      ;;
  esac
}

# lib/guard.sh - when a run must not simply go on
#
# Functions; each returns 0 when it is fine to go on and 1 with OUTLAST_WHY set when not
#   ol_guard_may_start      before anything else: finished? stopped? held? parent cancelled? stuck? budget?
#   ol_guard_may_repeat     before a relaunch or a successor after this failure: G1, G2, G4
#   ol_guard_delay_s        print how long to wait before the next try (G3), 0 for none
#
# G1 jobs in a row without a durable step forward; G2 the same failure at the same step; G3 rapid
# crashes wait, doubling; G4 budgets. Each is cleared by `outlast resume RUN`.
# Sets     OUTLAST_WHY, OUTLAST_HOLD (1: the reason is one to hold the run for, not only to leave)
# Reads    OUTLAST_STUCK_JOBS OUTLAST_SAME_FAILURE OUTLAST_RAPID_S OUTLAST_RAPID_WAIT_S OUTLAST_MAX_JOBS
#          OUTLAST_MAX_NODE_HOURS OUTLAST_END_DATE OUTLAST_PARENT OUTLAST_RUN_DIR
# Needs    log, bounded, history
# Sourcing it defines the functions above and does nothing else.

# What people or earlier jobs left in the run's folder. Status 2: no answer.
_ol_guard_wishes() {
  local found
  # shellcheck disable=SC2016 # expanded by the child
  found=$(ol_shared_print bash -c 'cd "$1" || exit
    [[ ! -e finished ]] || { echo "the run is finished"; exit 0; }
    for f in stop hold; do
      [[ ! -e control/$f ]] || { read -r why <"control/$f"; echo "control/$f is set${why:+: $why}"; exit 0; }
    done' _ "$OUTLAST_RUN_DIR") || return 2
  [[ -n $found ]] || return 0
  OUTLAST_WHY=$found
  return 1
}

_ol_guard_parent() {
  local state
  [[ -n ${OUTLAST_PARENT:-} ]] || return 0
  state=$(ol_sched_state "$OUTLAST_PARENT") || return 0
  [[ $state == *verdict=cancelled* ]] || return 0
  OUTLAST_WHY="somebody cancelled job $OUTLAST_PARENT, whose successor this is"
  OUTLAST_HOLD=1
  return 1
}

_ol_guard_budget() {
  local used now_s end_s
  if ((OUTLAST_MAX_JOBS > 0)); then
    used=$(ol_history_jobs)
    ((used < OUTLAST_MAX_JOBS)) || OUTLAST_WHY="the run has had its $OUTLAST_MAX_JOBS jobs (guard.max_jobs)"
  fi
  if ((OUTLAST_MAX_NODE_HOURS > 0)); then
    used=$(ol_history_node_hours)
    ((used < OUTLAST_MAX_NODE_HOURS)) || OUTLAST_WHY="the run has used its $OUTLAST_MAX_NODE_HOURS node hours (guard.max_node_hours)"
  fi
  if [[ -n $OUTLAST_END_DATE ]]; then
    printf -v now_s '%(%s)T' -1
    end_s=$(date -d "$OUTLAST_END_DATE" +%s)
    ((now_s < ${end_s:-0})) || OUTLAST_WHY="the run's end date $OUTLAST_END_DATE has come (guard.end_date)"
  fi
  [[ -z $OUTLAST_WHY ]] || OUTLAST_HOLD=1
  [[ -z $OUTLAST_WHY ]]
}

_ol_guard_stuck() { # DURABLE_STEP
  local count
  count=$(ol_history_stuck "$1")
  ((count < OUTLAST_STUCK_JOBS)) && return 0
  OUTLAST_WHY="$count jobs in a row made no durable step beyond $1"
  OUTLAST_HOLD=1
  return 1
}

ol_guard_may_start() {
  OUTLAST_WHY='' OUTLAST_HOLD=''
  _ol_guard_wishes || return
  _ol_guard_parent && _ol_guard_budget && _ol_guard_stuck "$OUTLAST_DURABLE_STEP"
}

ol_guard_may_repeat() {
  local count durable=$1
  OUTLAST_WHY='' OUTLAST_HOLD=''
  if [[ -n ${OUTLAST_FINGERPRINT:-} ]]; then
    count=$(ol_history_same "$OUTLAST_FINGERPRINT" "$OUTLAST_STEP")
    if ((count >= OUTLAST_SAME_FAILURE)); then
      OUTLAST_WHY="$count times the same failure ($OUTLAST_FINGERPRINT) at step $OUTLAST_STEP"
      return 1
    fi
  fi
  _ol_guard_stuck "$durable" && _ol_guard_budget
}

ol_guard_delay_s() {
  local count delay_s
  count=$(ol_history_rapid "$OUTLAST_RAPID_S")
  if ((count == 0)); then
    echo 0
    return
  fi
  delay_s=$((OUTLAST_RAPID_WAIT_S << (count < 8 ? count - 1 : 7)))
  printf '%d\n' "$((delay_s < 3600 ? delay_s : 3600))"
}

# lib/successor.sh - the next job of the chain
#
# Functions
#   ol_successor_submit DELAY_S [NODE...]   make sure that exactly one successor waits for this job's end.
#                              NODEs are excluded beside the user's own. 0 done; 1 refused for good (OUTLAST_WHY);
#                              2 no answer until the time was up
#   ol_successor_remove        cancel the successor that our ledger says we made; a person wants no further job
#   ol_successor_command       print what a person types to go on
#
# Sets     OUTLAST_NEXT_ID (its id), OUTLAST_WHY
# Reads    OUTLAST_RUN OUTLAST_RUN_DIR OUTLAST_GENERATION OUTLAST_JOB_ID OUTLAST_EXCLUDE OUTLAST_PROJECT
# Needs    log, bounded, ledger, history, deadline, run
# Sourcing it defines the functions above and does nothing else.

# Unique in the run, so that a submit whose answer was lost is found again.
_ol_successor_name() { printf '%s.%d\n' "$OUTLAST_RUN" "$((10#$OUTLAST_GENERATION + 1))"; }

ol_successor_command() { printf 'outlast resume %s\n' "$OUTLAST_RUN_DIR"; }

# One unknown name makes sbatch refuse the whole job, so those are left out.
_ol_successor_exclude() {
  local wanted=() known
  IFS=', ' read -ra wanted <<<"${OUTLAST_EXCLUDE:-} $*"
  ((${#wanted[@]} > 0)) || return 0
  known=$(ol_sched_known_nodes "${wanted[@]}") || {
    ol_log_warn "cannot ask which nodes exist: nothing is excluded"
    return 0
  }
  known=$(sort -u <<<"$known" | head -n "${OUTLAST_EXCLUDE_CAP:-200}")
  printf '%s\n' "${known//$'\n'/,}"
}

# Print a successor that is already waiting: this job's own, or one that a job before it made (a requeued
# parent runs again while its child still waits).
_ol_successor_waiting() {
  local id state name
  name=$(_ol_successor_name)
  if id=$(ol_sched_find "$name"); then
    printf '%s\n' "$id"
    return 0
  fi
  for id in $(ol_history_successors); do
    state=$(ol_sched_state "$id") || continue
    [[ $state == state=pending* ]] || continue
    printf '%s\n' "$id"
    return 0
  done
  return 1
}

# What the successors run. The run's own copy, else (the shared file system does not answer) the one on this node.
_ol_successor_script() {
  local copy=$OUTLAST_STATE/next.sh
  # shellcheck disable=SC2016 # expanded by the child
  if ol_bounded 10 bash -c '[[ -O $1 ]] && cp "$1" "$2"' _ "$OUTLAST_RUN_DIR/job.sh" "$copy"; then
    printf '%s\n' "$copy"
  else
    printf '%s\n' "$OUTLAST_STATE/job.sh"
  fi
}

_ol_successor_try() { # SCRIPT DELAY_S EXCLUDE
  local name answer status=0
  name=$(_ol_successor_name)
  answer=$(ol_sched_submit "$1" "$name" depend="$OUTLAST_JOB_ID" delay_s="$2" exclude="$3" \
    output="$OUTLAST_RUN_DIR/logs/%j.out" dir="$OUTLAST_PROJECT" 2>"$OUTLAST_STATE/refused") || status=$?
  if ((status == 0)); then
    OUTLAST_NEXT_ID=$answer
  elif ((status == 1)); then
    OUTLAST_WHY="the scheduler refused the next job: $(head -c 300 "$OUTLAST_STATE/refused")"
  fi
  return "$status"
}

_ol_successor_note() {
  ol_ledger_add submitted successor="$OUTLAST_NEXT_ID" name="$(_ol_successor_name)" by="job $OUTLAST_JOB_ID"
  ol_log_info "job $OUTLAST_NEXT_ID follows this one"
}

# A submit that seems to fail may have worked: look before every further try.
ol_successor_submit() {
  local delay_s=$1 script exclude wait_s=5 status left_s
  shift
  [[ -z ${OUTLAST_NEXT_ID:-} ]] || return 0
  script=$(_ol_successor_script)
  exclude=$(_ol_successor_exclude "$@")
  while :; do
    if OUTLAST_NEXT_ID=$(_ol_successor_waiting); then
      _ol_successor_note
      return 0
    fi
    status=0
    _ol_successor_try "$script" "$delay_s" "$exclude" || status=$?
    case $status in
      0)
        _ol_successor_note
        return 0
        ;;
      1) return 1 ;;
    esac
    left_s=$(ol_deadline_job_left)
    OUTLAST_WHY="the scheduler does not answer; to go on: $(ol_successor_command)"
    ol_log_warn "$OUTLAST_WHY (trying again, $left_s s left)"
    ((left_s > wait_s)) && [[ ! -e $OUTLAST_STATE/term ]] || return 2
    ol_run_pause "$wait_s" || return 2
    wait_s=$((wait_s < 60 ? wait_s * 2 : 60))
  done
}

ol_successor_remove() {
  local id state ids=()
  for id in ${OUTLAST_NEXT_ID:-} $(ol_history_successors); do
    state=$(ol_sched_state "$id") || continue
    [[ $state != state=pending* || " ${ids[*]} " == *" $id "* ]] || ids+=("$id")
  done
  ((${#ids[@]} > 0)) || return 0
  ol_sched_cancel "${ids[@]}" && ol_log_info "successor ${ids[*]} removed"
  OUTLAST_NEXT_ID=''
}

# lib/settle.sh - the job's last minutes: drain, finish, report, let go
#
# Functions
#   ol_settle               once, after the decision. Sets OUTLAST_EXIT, the script's exit status
#   ol_settle_unexpected    EXIT trap: an exit without a decision is the class `internal`, and still decides
#
# Needs    log, bounded, ledger, courier, decide, deadline, ending, lease, mail, py
# Sourcing it defines the functions above and does nothing else.

# Seconds that may still be used: until KILL when the scheduler has sent TERM, else until the allocation ends,
# but at most half an hour: a file system that is away for longer must not cost the nodes of a long allocation.
_ol_settle_left() {
  local left_s
  left_s=$(ol_deadline_job_left)
  [[ ! -e $OUTLAST_STATE/term ]] || left_s=20
  ((left_s <= 1800)) || left_s=1800
  printf '%d\n' "$((left_s < 5 ? 5 : left_s))"
}

_ol_settle_drain() {
  local left_s status=2
  while ((status == 2)); do
    _ol_settle_cancelled
    left_s=$(_ol_settle_left)
    status=0
    ol_sidecar_drain "$left_s" || status=$?
  done
  ((status == 0)) || ol_log_warn "not every complete checkpoint could be made durable in $left_s s"
}

# What the trainer wrote beside its checkpoints (the final model, its own logs) would go with the node.
_ol_settle_output() {
  local left_s
  [[ $OUTLAST_STORAGE == local ]] || return 0
  left_s=$(_ol_settle_left)
  # shellcheck disable=SC2016 # expanded by the child
  ol_bounded "$left_s" bash -c 'cd "$1" || exit; shopt -s nullglob
    for f in *; do [[ $f == "$2"[0-9]* ]] || { mkdir -p "$3" && cp -ru "$f" "$3/"; }; done' _ \
    "$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_RUN_DIR/output"
}

# The run is over when the last checkpoint is durable; otherwise a next job has to do the rest.
_ol_settle_finish() {
  local newest durable=$OUTLAST_DURABLE_AT_START
  newest=$(ol_checkpoint_complete 0 | tail -n 1)
  newest=${newest%% *}
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  if ((${newest:-0} > durable)); then
    ol_log_warn "training is over, but its last checkpoint ${newest} is not durable: a next job will finish"
    OUTLAST_THEN=submit
    _ol_decide_submit
    return
  fi
  ol_shared touch "$OUTLAST_RUN_DIR/finished"
  ol_ledger_add finished step:="${OUTLAST_STEP:-$durable}"
  ol_log_info "finished"
  ol_mail_send "finished" "The run is finished; its last checkpoint is $OUTLAST_RUN_DIR/checkpoints/$OUTLAST_CKPT_PREFIX$durable"
}

# Somebody may cancel the job while it drains: then its successor must go as well.
_ol_settle_cancelled() {
  [[ -e $OUTLAST_STATE/term && $OUTLAST_THEN == submit && $OUTLAST_CLASS != preempted && $OUTLAST_CLASS != walltime_late && $OUTLAST_CLASS != node ]] || return 0
  [[ ! -e $OUTLAST_STATE/term.seen ]] || return 0
  : >"$OUTLAST_STATE/term.seen"
  _ol_ending_ask || return 0
  [[ $OUTLAST_SCHED_SAYS == *verdict=cancelled* ]] || return 0
  _ol_ending_is cancelled "somebody cancelled the job while it was ending"
  ol_decide
}

# The table of jobs so far goes to the end of the job's log; first the ledger must be there.
_ol_settle_report() {
  local left_s
  left_s=$(_ol_settle_left)
  if ol_courier_carry "$left_s"; then
    [[ -e $OUTLAST_STATE/term ]] || ol_py 60 summary "$OUTLAST_RUN_DIR"
    ol_courier_carry "$left_s"
  else
    ol_log_warn "the shared file system did not take the last of the log"
  fi
}

ol_settle() {
  : >"$OUTLAST_STATE/settling"
  OUTLAST_EXIT=0
  if [[ -n ${OUTLAST_COURIER_PID:-} ]]; then
    if ((OUTLAST_ATTEMPT > 0)); then
      _ol_settle_drain
      _ol_settle_output
      [[ $OUTLAST_THEN != finish ]] || _ol_settle_finish
    fi
    _ol_settle_cancelled
    _ol_settle_report
    _ol_settle_cancelled
  fi
  [[ -z ${OUTLAST_GENERATION_MINE:-} ]] || ol_lease_release
  [[ $OUTLAST_THEN != hold || $OUTLAST_CLASS == stopped ]] || OUTLAST_EXIT=1
  _ol_settle_end
}

_ol_settle_end() {
  : >"$OUTLAST_STATE/settled"
  ol_courier_stop
  [[ -z ${OUTLAST_TIMER_PID:-} ]] || kill -s KILL "$OUTLAST_TIMER_PID" 2>/dev/null
  cd / && rm -rf "$OUTLAST_LOCAL"
}

ol_settle_unexpected() {
  local code=$?
  trap - EXIT
  [[ -d ${OUTLAST_STATE:-} && ! -e $OUTLAST_STATE/settled ]] || return 0
  if [[ -z ${OUTLAST_THEN:-} || $OUTLAST_THEN == relaunch ]]; then
    _ol_ending_is internal "the script ended without a decision (status $code)"
    [[ -z ${OUTLAST_LAUNCH_PID:-} ]] || ol_sched_kill_launch "$OUTLAST_LAUNCH_PID"
    if [[ -n ${OUTLAST_GENERATION_MINE:-} ]]; then ol_decide; else OUTLAST_THEN=leave; fi
  fi
  ol_settle
  exit "$OUTLAST_EXIT"
}

# lib/deadline.sh - when training must stop, kept by a process of its own
#
# A signal of the scheduler comes early, late or not at all, so a clock decides. The timer asks the
# scheduler again and again, because a time limit can be changed while the job runs, and keeps its answer
# in node-local files: it never touches the shared file system.
#
# Functions
#   ol_deadline_start       start the timer
#   ol_deadline_left        print the seconds until training must stop, never less than 0
#   ol_deadline_job_left    print the seconds until the allocation ends, never less than 0
#   ol_deadline_is_near S   are fewer than S seconds of training left?
#
# Files    OUTLAST_STATE/end_time   when the allocation ends, UTC seconds
#          OUTLAST_STATE/deadline   the time is up: when, and why; written before anybody is told
# Reads    OUTLAST_STARTED_S OUTLAST_WALLTIME_S OUTLAST_MARGIN_S OUTLAST_TRAIN_AT_MOST_S OUTLAST_POLL_S
# Needs    log
# Sourcing it defines the functions above and does nothing else.

# The timer calls this every second, so it starts no process: sets OL_DEADLINE_END (of the allocation) and
# OL_DEADLINE_AT (of training), UTC seconds.
_ol_deadline_compute() {
  local end_s=''
  read -r end_s 2>/dev/null <"$OUTLAST_STATE/end_time"
  OL_DEADLINE_END=${end_s:-$((OUTLAST_STARTED_S + OUTLAST_WALLTIME_S))}
  OL_DEADLINE_AT=$((OL_DEADLINE_END - OUTLAST_MARGIN_S))
  if ((OUTLAST_TRAIN_AT_MOST_S > 0 && OUTLAST_STARTED_S + OUTLAST_TRAIN_AT_MOST_S < OL_DEADLINE_AT)); then
    OL_DEADLINE_AT=$((OUTLAST_STARTED_S + OUTLAST_TRAIN_AT_MOST_S))
  fi
}

_ol_deadline_print_left() { # UTC_SECONDS
  local now_s left_s
  printf -v now_s '%(%s)T' -1
  left_s=$(($1 - now_s))
  printf '%d\n' "$((left_s > 0 ? left_s : 0))"
}

ol_deadline_left() {
  _ol_deadline_compute
  _ol_deadline_print_left "$OL_DEADLINE_AT"
}

ol_deadline_job_left() {
  _ol_deadline_compute
  _ol_deadline_print_left "$OL_DEADLINE_END"
}

ol_deadline_is_near() {
  local left_s
  left_s=$(ol_deadline_left)
  ((left_s < $1))
}

_ol_deadline_ask() {
  local end_s
  end_s=$(ol_sched_end_time) || return
  [[ $end_s =~ ^[0-9]+$ ]] || return
  printf '%d\n' "$end_s" >"$OUTLAST_STATE/end_time.new" && mv -f "$OUTLAST_STATE/end_time.new" "$OUTLAST_STATE/end_time"
}

# One look a second at the clock; the scheduler is asked every POLL_S seconds, or at once on a signal's hint.
_ol_deadline_loop() { # MAIN_PID
  local tick=0 now_s
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    if ((tick % OUTLAST_POLL_S == 0)) || [[ -e $OUTLAST_STATE/ask ]]; then
      rm -f "$OUTLAST_STATE/ask"
      _ol_deadline_ask
    fi
    _ol_deadline_compute
    printf -v now_s '%(%s)T' -1
    if ((now_s >= OL_DEADLINE_AT)) && [[ ! -e $OUTLAST_STATE/deadline ]]; then
      printf '%d %s\n' "$now_s" "the allocation ends in $((OL_DEADLINE_END - now_s)) s" >"$OUTLAST_STATE/deadline"
    elif ((OL_DEADLINE_AT - now_s > 60)) && [[ -e $OUTLAST_STATE/deadline && ! -e $OUTLAST_STATE/asked ]]; then
      rm -f "$OUTLAST_STATE/deadline" # the limit was raised before anybody was told
    fi
    tick=$((tick + 1))
    sleep 1
  done
}

ol_deadline_start() {
  _ol_deadline_ask || ol_log_warn "the scheduler does not say when the job ends; counting on $OUTLAST_WALLTIME_S s"
  _ol_deadline_loop "$$" &
  OUTLAST_TIMER_PID=$!
}

# lib/courier.sh - what goes between the node and the shared file system while training runs
#
# Two processes of their own, because a shared file system can freeze for minutes and the watch must not:
# the courier carries small things (ledger, logs, people's wishes, the lease), the sidecar carries checkpoints.
#
# Functions
#   ol_courier_start / ol_courier_stop     both processes
#   ol_courier_carry SEC                   ask the courier for a round now, wait up to SEC seconds; 1 not done
#   ol_sidecar_hurry                       no rank writes any more: make the rest durable, nobody waits yet
#   ol_sidecar_drain SEC                   the same of the sidecar, when no rank writes any more
#   ol_courier_round                       one round of the courier
#   ol_courier_log                         append what is new in the job's logs to RUN/logs/
#   ol_sidecar_round [QUIET_S]             make complete checkpoints durable; 0 nothing is left to copy
#
# Files    OUTLAST_STATE/{stop,save,hold}  a person's wish was seen in RUN/control/
#          OUTLAST_STATE/lost              the lease is another job's
#          OUTLAST_STATE/local_step        newest complete checkpoint where the trainer writes, with its time
#          OUTLAST_STATE/durable_step      newest durable one that this job made
# Needs    log, bounded, ledger, lease, checkpoint
# Sourcing it defines the functions above and does nothing else.

# attempt.2.log is RUN/logs/JOB.RESTART.2.log, job.log is RUN/logs/JOB.RESTART.log
_ol_courier_log_name() {
  local name=${1##*/}
  name=${name#job}
  name=${name#attempt}
  printf '%s\n' "$OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART$name"
}

# A log's copy is continued at its own length, so an append whose end is not known does no harm.
ol_courier_log() {
  local log size name
  for log in "$OUTLAST_STATE"/job.log "$OUTLAST_STATE"/attempt.*.log; do
    size=$(stat -c %s "$log" 2>/dev/null) || continue
    ((size > ${OL_COURIER_SENT[${log##*/}]:-0})) || continue
    name=$(_ol_courier_log_name "$log")
    # shellcheck disable=SC2016 # expanded by the child
    ol_shared bash -c 'have=$(stat -c %s "$2" 2>/dev/null || echo 0)
      tail -c "+$((have + 1))" "$1" >>"$2"' _ "$log" "$name" || return
    OL_COURIER_SENT[${log##*/}]=$size
  done
}

# One look for all: what people wish (`save` is done once, so its file goes when it has been seen), and whether
# a newer lease than ours is there.
_ol_courier_look() {
  local seen word
  # shellcheck disable=SC2016 # expanded by the child
  seen=$(ol_shared_print bash -c 'cd "$1/control" || exit
    for f in stop save hold; do [[ ! -e $f ]] || echo "$f"; done; rm -f save
    for f in ../lease/[0-9][0-9][0-9][0-9][0-9][0-9]; do [[ ! ${f##*/} > $2 ]] || echo lost; done' _ \
    "$OUTLAST_RUN_DIR" "$OUTLAST_GENERATION") || return
  for word in $seen; do
    [[ -e $OUTLAST_STATE/$word ]] || ol_log_info "seen in the run's folder: $word"
    printf '%(%s)T\n' -1 >"$OUTLAST_STATE/$word"
  done
}

ol_courier_round() {
  ol_ledger_flush
  ol_courier_log
  _ol_courier_look
}

# Sleep up to SEC seconds; a request of the supervisor (FILE_wanted differs from FILE_done) ends it.
_ol_courier_nap() { # SEC FILE
  local tick wanted done_
  for ((tick = 0; tick < $1 * 4; tick++)); do
    wanted='' done_=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/$2_wanted"
    read -r done_ 2>/dev/null <"$OUTLAST_STATE/$2_done"
    [[ $wanted == "$done_" ]] || return 0
    sleep 0.25
  done
}

_ol_courier_loop() { # MAIN_PID
  local wanted
  local -A OL_COURIER_SENT=()
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    wanted=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/carry_wanted"
    ol_courier_round
    [[ -z $wanted ]] || printf '%s\n' "$wanted" >"$OUTLAST_STATE/carry_done"
    _ol_courier_nap "${OUTLAST_COURIER_S:-5}" carry
  done
}

# Newest first: when time is short the newest is the one that counts. What is older than the newest
# durable checkpoint is not copied any more.
ol_sidecar_round() {
  local step path durable=-1 left=0 status
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  while read -r step path; do
    ((step > durable)) || continue
    _ol_sidecar_seen "$step"
    status=0
    ol_checkpoint_keep "$step" "$path" || status=$?
    if ((status == 0)); then
      durable=$step
      ol_checkpoint_prune
    elif ((status == 3)); then
      : >"$OUTLAST_STATE/lost" # nothing of ours is wanted any more
      return 0
    else
      left=1
    fi
  done < <(ol_checkpoint_complete "$@" | sort -rn)
  return "$left"
}

_ol_sidecar_seen() {
  local known=-1 _
  [[ ! -s $OUTLAST_STATE/local_step ]] || read -r known _ <"$OUTLAST_STATE/local_step"
  (($1 > known)) || return 0
  printf '%d %(%s)T\n' "$1" -1 >"$OUTLAST_STATE/local_step"
  ol_ledger_add checkpoint_local step:="$1"
}

# When the supervisor asks, no rank writes any more: nothing has to be quiet first.
_ol_sidecar_loop() { # MAIN_PID
  local wanted
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    wanted=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/drain_wanted"
    if [[ -z $wanted ]]; then
      ol_sidecar_round
    elif ol_sidecar_round 0; then
      printf '%s\n' "$wanted" >"$OUTLAST_STATE/drain_done"
    fi
    _ol_courier_nap "${OUTLAST_SIDECAR_S:-5}" drain
  done
}

# Ask for a round now and wait for it. Status 0 done; 1 not within SEC seconds, or the process is gone;
# 2 the job got TERM meanwhile.
_ol_courier_ask() { # FILE PID SEC
  local tick answer token calm=1
  [[ ! -e $OUTLAST_STATE/term ]] || calm=0
  printf -v token '%(%s)T.%d' -1 "$RANDOM"
  printf '%s\n' "$token" >"$OUTLAST_STATE/$1_wanted"
  for ((tick = 0; tick < $3 * 10; tick++)); do
    answer=''
    read -r answer 2>/dev/null <"$OUTLAST_STATE/$1_done"
    [[ $answer != "$token" ]] || return 0
    kill -0 "$2" 2>/dev/null || return 1
    [[ $calm == 0 || ! -e $OUTLAST_STATE/term ]] || return 2
    sleep 0.1
  done
  return 1
}

ol_courier_carry() { _ol_courier_ask carry "${OUTLAST_COURIER_PID:-0}" "$1"; }

# The same without waiting.
ol_sidecar_hurry() { printf 'hurry\n' >"$OUTLAST_STATE/drain_wanted"; }

# The next attempt's trainer writes again, so the request is taken back when it has been met.
ol_sidecar_drain() {
  local status=0
  _ol_courier_ask drain "${OUTLAST_SIDECAR_PID:-0}" "$1" || status=$?
  rm -f "$OUTLAST_STATE/drain_wanted" "$OUTLAST_STATE/drain_done"
  return "$status"
}

ol_courier_start() {
  _ol_courier_loop "$$" &
  OUTLAST_COURIER_PID=$!
  _ol_sidecar_loop "$$" &
  OUTLAST_SIDECAR_PID=$!
}

# TERM is ignored there: under some process trackers the whole job gets it while there is still work to do
# (slurm-facts 4). Not waited for: a child of theirs may hang with the file system.
ol_courier_stop() {
  local pid
  for pid in "${OUTLAST_COURIER_PID:-}" "${OUTLAST_SIDECAR_PID:-}"; do
    [[ -z $pid ]] || kill -s KILL "$pid" 2>/dev/null
  done
}

# lib/checkpoint.sh - checkpoints that one rank writes: node-local while training, durable beside it
#
# A checkpoint is an entry PREFIX-and-number in a folder (checkpoint-600, step-600). It is complete when the
# preset's last file is there and nothing in it has changed for a while. It is durable when it lies in
# RUN/checkpoints/ with a MANIFEST.json, which is written last.
#
# Functions
#   ol_checkpoint_complete [QUIET_S]  print `STEP PATH` of the complete checkpoints where the trainer writes, by step
#   ol_checkpoint_is_written          is the trainer writing one right now? 0 yes
#   ol_checkpoint_keep STEP PATH      make one durable: 0 done, 1 could not, 3 the run is not ours any more
#   ol_checkpoint_prune               remove the oldest durable ones, OUTLAST_CKPT_KEEP stay
#   ol_checkpoint_durable             print `STEP PATH` of the newest whole durable checkpoint; 1 none; 2 no answer
#   ol_checkpoint_drop_torn           shared storage: move what never got complete to quarantine/
#   ol_checkpoint_arrange SRC DIR PREFIX   on a node: let DIR hold SRC's checkpoint and no other
#
# Reads    OUTLAST_CKPT_DIR OUTLAST_CKPT_PREFIX OUTLAST_CKPT_COMPLETE OUTLAST_CKPT_QUIET_S OUTLAST_CKPT_KEEP
#          OUTLAST_STORAGE OUTLAST_RUN_DIR OUTLAST_GENERATION
# Needs    log, bounded, ledger
# Sourcing it defines the functions above and does nothing else.

_ol_checkpoint_list() { # DIR PREFIX COMPLETE QUIET_S
  local path step changed
  for path in "$1/$2"[0-9]*; do
    step=${path##*/"$2"}
    step=${step%%[!0-9]*}
    [[ -e $path && -n $step ]] || continue
    [[ -z $3 || -e $path/$3 ]] || continue
    changed=''
    (($4 == 0)) || changed=$(find "$path" -newermt "-$4 seconds" -print -quit 2>/dev/null)
    [[ -n $changed ]] || printf '%d %s\n' "$((10#$step))" "$path"
  done | sort -n
}

# Is one being written: a folder without its last file?
_ol_checkpoint_half() { # DIR PREFIX COMPLETE
  local path
  [[ -n $3 ]] || return 1
  for path in "$1/$2"[0-9]*; do
    [[ ! -d $path || -e $path/$3 ]] || return 0
  done
  return 1
}

# On the shared file system a look may hang, so a child takes it.
_ol_checkpoint_look() { # FUNCTION [QUIET_S]
  local args=("$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_COMPLETE" "${@:2}")
  if [[ $OUTLAST_STORAGE == local ]]; then
    "$1" "${args[@]}"
  else
    ol_shared_print bash -c "$(declare -f "$1"); $1 \"\$@\"" _ "${args[@]}"
  fi
}

ol_checkpoint_complete() { _ol_checkpoint_look _ol_checkpoint_list "${1:-$OUTLAST_CKPT_QUIET_S}"; }
ol_checkpoint_is_written() { _ol_checkpoint_look _ol_checkpoint_half; }

# Print the manifest of the checkpoint in DIR. Needs nothing but Bash and find.
_ol_checkpoint_manifest() { # STEP DIR
  local sizes fields name bytes total=0 files='' count=0
  sizes=$(find "$2" -type f ! -name MANIFEST.json -printf '%s %P\n' | sort -k 2)
  while read -r bytes name; do
    [[ -n $name ]] || continue
    fields=$(ol_ledger_json "path=$name" "bytes:=$bytes")
    files+="${files:+,$'\n'}    {${fields#,}}"
    total=$((total + bytes))
    count=$((count + 1))
  done <<<"$sizes"
  printf '{"step":%d,"files":%d,"bytes":%d,"run":"%s","job":"%s","restart":%d,"attempt":%d,"written":%(%s)T,\n  "list":[\n%s\n  ]}\n' \
    "$1" "$count" "$total" "$OUTLAST_RUN" "$OUTLAST_JOB_ID" "$OUTLAST_RESTART" "$OUTLAST_ATTEMPT" -1 "$files"
}

# Runs in a child that may hang with the file system. The trainer may prune its folder while we copy, so
# the files are linked aside first; the lease is looked at last, so that a job that lost the run publishes nothing.
_ol_checkpoint_copy() { # STEP SRC ASIDE CHECKPOINTS NAME LEASE GENERATION MANIFEST_FILE
  local src=$2 aside=$3 into=$4 name=$5 lease=$6 newest
  rm -rf "$aside" "$into/.incoming-$name"
  if [[ -d $src ]]; then
    cp -al "$src" "$aside" || return 1
  else
    mkdir -p "$aside" && cp -al "$src" "$aside/" || return 1
  fi
  cp -r "$aside" "$into/.incoming-$name" || return 1
  sync -f "$into/.incoming-$name" || return 1
  newest=$(find "$lease" -name '[0-9][0-9][0-9][0-9][0-9][0-9]' -printf '%f\n' | sort | tail -n 1)
  [[ $newest == "$7" ]] || return 3
  cp "$8" "$into/.incoming-$name/.MANIFEST.json" && sync -f "$into/.incoming-$name" || return 1
  mv "$into/.incoming-$name/.MANIFEST.json" "$into/.incoming-$name/MANIFEST.json" || return 1
  rm -rf "${into:?}/$name"
  mv "$into/.incoming-$name" "$into/$name"
}

# In shared storage the trainer has written in place; only the manifest is missing.
_ol_checkpoint_mark() { # MANIFEST_FILE PATH
  cp "$1" "$2/.MANIFEST.json" && sync -f "$2" && mv "$2/.MANIFEST.json" "$2/MANIFEST.json"
}

ol_checkpoint_keep() {
  local step=$1 src=$2 name=${2##*/} manifest=$OUTLAST_STATE/manifest.$BASHPID begun_s now_s status=0 bytes
  printf -v begun_s '%(%s)T' -1
  _ol_checkpoint_manifest "$step" "$src" >"$manifest"
  # shellcheck disable=SC2016 # expanded by the child
  if [[ $OUTLAST_STORAGE == local ]]; then
    ol_bounded "${OUTLAST_COPY_LIMIT_S:-7200}" bash -c "$(declare -f _ol_checkpoint_copy); "'_ol_checkpoint_copy "$@"' _ \
      "$step" "$src" "$OUTLAST_STATE/aside" "$OUTLAST_RUN_DIR/checkpoints" "$name" "$OUTLAST_RUN_DIR/lease" \
      "$OUTLAST_GENERATION" "$manifest" || status=$?
    rm -rf "$OUTLAST_STATE/aside"
  else
    ol_bounded "${OUTLAST_COPY_LIMIT_S:-7200}" bash -c "$(declare -f _ol_checkpoint_mark); "'_ol_checkpoint_mark "$@"' _ \
      "$manifest" "$src" || status=$?
  fi
  bytes=$(sed -nE '1s/.*"bytes":([0-9]+).*/\1/p' "$manifest")
  rm -f "$manifest"
  if ((status != 0)); then
    ol_log_warn "checkpoint $step is not durable yet (status $status)"
    return "$status"
  fi
  printf -v now_s '%(%s)T' -1
  printf '%d\n' "$step" >"$OUTLAST_STATE/durable_step"
  ol_ledger_add checkpoint_durable step:="$step" bytes:="$bytes" seconds:="$((now_s - begun_s))"
  ol_log_info "checkpoint $step is durable ($bytes bytes in $((now_s - begun_s)) s)"
}

# Only what has a manifest of ours is removed; renamed first, so that a half removed one is never offered.
ol_checkpoint_prune() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_bounded 600 bash -c 'cd "$1" || exit; rm -rf .trash-*
    for f in "$2"[0-9]*; do
      [[ -e $f/MANIFEST.json ]] || continue
      n=${f#"$2"}; echo "${n%%[!0-9]*} $f"
    done | sort -rn | tail -n "+$(($3 + 1))" | while read -r _ f; do mv "$f" ".trash-$f" && rm -rf ".trash-$f"; done' _ \
    "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_KEEP"
}

# Runs in a child. A checkpoint whose files do not add up to its manifest goes to quarantine.
_ol_checkpoint_newest() { # RUN PREFIX
  local path step said found
  cd "$1/checkpoints" || return 2
  while read -r step path; do
    said=$(sed -nE '1s/.*"files":([0-9]+),"bytes":([0-9]+).*/\1 \2/p' "$path/MANIFEST.json")
    found=$(find "$path" -type f ! -name MANIFEST.json -printf '%s\n' | awk '{ n++; s += $1 } END { printf "%d %d", n, s }')
    if [[ $said == "$found" ]]; then
      printf '%d %s\n' "$step" "$PWD/$path"
      return 0
    fi
    printf '%s: MANIFEST.json says %s (files, bytes), found %s\n' "$path" "${said:-nothing}" "$found" >>"../quarantine/why.txt"
    mv "$path" "../quarantine/$path.$(date +%s)"
  done < <(for path in "$2"[0-9]*; do
    [[ -e $path/MANIFEST.json ]] || continue
    step=${path#"$2"}
    printf '%d %s\n' "$((10#${step%%[!0-9]*}))" "$path"
  done | sort -rn)
  return 1
}

ol_checkpoint_durable() {
  local status=0
  # shellcheck disable=SC2016 # expanded by the child
  ol_bounded_print 120 bash -c "$(declare -f _ol_checkpoint_newest); "'_ol_checkpoint_newest "$@"' _ \
    "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX" || status=$?
  ((status <= 1)) || status=2
  return "$status"
}

ol_checkpoint_drop_torn() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1/checkpoints" || exit
    for f in "$2"[0-9]*; do
      [[ -e $f && ! -e $f/MANIFEST.json ]] || continue
      echo "$f: never complete" >>../quarantine/why.txt
      mv "$f" "../quarantine/$f.$(date +%s)"
    done' _ "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX"
}

# SRC may be empty: then the trainer starts anew and must see no checkpoint. What a rank of the attempt
# before left is newer or incomplete; it is moved out of the trainer's sight, the last one is kept for a look.
ol_checkpoint_arrange() { # SRC DIR PREFIX
  local src=$1 dir=$2 prefix=$3 name=${1##*/} path
  mkdir -p "$dir" || return
  for path in "$dir/$prefix"[0-9]*; do
    [[ -e $path ]] || continue
    if [[ -n $src && ${path##*/} == "$name" && -e $path/MANIFEST.json ]] && cmp -s "$path/MANIFEST.json" "$src/MANIFEST.json"; then
      continue
    fi
    rm -rf "$dir/.unused"
    mv "$path" "$dir/.unused" || return
  done
  [[ -n $src && ! -e $dir/$name ]] || return 0
  rm -rf "$dir/.arriving"
  cp -r "$src" "$dir/.arriving" && mv "$dir/.arriving" "$dir/$name"
}

# lib/progress.sh - which step the trainer has reached, read from its log
#
# Functions
#   ol_progress_look LOG      read what is new in LOG; sets OUTLAST_STEP to the last step seen and
#                             OUTLAST_FIRST_STEP to the first (both empty as long as none was: unknown is not 0);
#                             what the shim and the launcher say of ranks and nodes is appended to LOG.said
#   ol_progress_reset         a new attempt begins
#   ol_progress_is_finished   does the log, the last checkpoint or the step say that training is over?
#                             0 yes, 1 no, 2 cannot be known
#
# Reads    OUTLAST_STEP_REGEX (extended, one group) OUTLAST_STEP_ZERO_COUNTS OUTLAST_FINISH_REGEX OUTLAST_TARGET_STEP
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

ol_progress_reset() { OUTLAST_STEP='' OUTLAST_FIRST_STEP='' OUTLAST_LOG_SIZE=0; }

# Steps in stdin, one a line. Progress bars end their lines with \r, and colours stand between words.
_ol_progress_steps() {
  [[ -n $OUTLAST_STEP_REGEX ]] || return 0
  tr '\r' '\n' | LC_ALL=C sed -nE -e 's/\x1b\[[0-9;]*[A-Za-z]//g' -e "s"$'\001'".*$OUTLAST_STEP_REGEX.*"$'\001\\1\001'"p"
}

# A log can have gigabytes, so each byte is read once, but for a line's worth: what stood half-written at the
# last look is read again. (Lines in .said may repeat.) Steps are looked for in the newest 2 MB only.
ol_progress_look() {
  local log=$1 size steps first chunk=$1.new
  size=$(stat -c %s "$log" 2>/dev/null) || return 0
  ((size > OUTLAST_LOG_SIZE)) || return 0
  tail -c "+$((OUTLAST_LOG_SIZE > 500 ? OUTLAST_LOG_SIZE - 499 : 1))" "$log" | head -c "$((size - OUTLAST_LOG_SIZE + 500))" >"$chunk"
  OUTLAST_LOG_SIZE=$size
  grep -aE 'outlast: rank [0-9]+ |error: Node failure on |STEP [0-9.]+ ON .* CANCELLED AT ' "$chunk" >>"$log.said"
  steps=$(tail -c 2000000 "$chunk" | _ol_progress_steps | grep -xE '[0-9]+')
  [[ $OUTLAST_STEP_ZERO_COUNTS == 1 ]] || steps=$(grep -vxE '0+' <<<"$steps")
  [[ -n $steps ]] || return 0
  first=${steps%%$'\n'*}
  OUTLAST_STEP=$((10#${steps##*$'\n'}))
  [[ -n $OUTLAST_FIRST_STEP ]] || OUTLAST_FIRST_STEP=$((10#$first))
}

# trainer_state.json of Hugging Face knows both numbers: `"global_step": 600, ... "max_steps": 600`.
_ol_progress_hf_finished() {
  local state step max
  state=$(ol_shared_print grep -aE '^ *"(global_step|max_steps)": *[0-9]+' "$1/trainer_state.json" 2>/dev/null)
  step=$(sed -nE 's/.*"global_step": *([0-9]+).*/\1/p;' <<<"$state" | head -n 1)
  max=$(sed -nE 's/.*"max_steps": *([0-9]+).*/\1/p' <<<"$state" | head -n 1)
  [[ -n $step && -n $max ]] || return 2
  ((max > 0 && step >= max))
}

# Trainers say "finished" too when they stop because we asked: then only numbers count.
ol_progress_is_finished() { # LOG NEWEST_CHECKPOINT ASKED
  local status
  if [[ -n $OUTLAST_FINISH_REGEX && -z $3 ]] && tail -c 2000000 "$1" 2>/dev/null | grep -qaE -- "$OUTLAST_FINISH_REGEX"; then
    return 0
  fi
  if ((OUTLAST_TARGET_STEP > 0)); then
    ((${OUTLAST_STEP:-0} >= OUTLAST_TARGET_STEP))
    return
  fi
  if [[ -n $2 ]]; then
    _ol_progress_hf_finished "$2" && return 0
    status=$?
    ((status == 2)) || return 1
  fi
  [[ -z $OUTLAST_FINISH_REGEX ]] || return 1
  return 2
}

# lib/lease.sh - one job at a time owns the run
#
# RUN/lease/000017 holds `job=ID restart=N host=H` of the seventeenth owner; the highest number owns the
# run, 000017.end says that its owner let go. A file is linked into place, so two jobs cannot make the same.
# It also fences a job that the scheduler has given up but that still runs (a cut-off batch host).
#
# Functions
#   ol_lease_take           become the owner. 0 done; 1 the run is another job's (OUTLAST_WHY says whose);
#                           2 the shared file system or the scheduler does not answer
#   ol_lease_is_lost        is there a newer owner? 0 yes, 1 no, 2 no answer
#   ol_lease_release        let go
#
# Sets     OUTLAST_GENERATION (six digits), OUTLAST_WHY
# Reads    OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_PARENT OUTLAST_LEASE_WAIT_S
# Needs    log, bounded, run
# Sourcing it defines the functions above and does nothing else.

# Print `000017 job=... restart=... host=... [ended]` of the newest lease, `000000` when there is none.
_ol_lease_look() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared_print bash -c 'cd "$1" || exit; last=000000
    for f in [0-9][0-9][0-9][0-9][0-9][0-9]; do [[ ! -e $f ]] || last=$f; done
    [[ $last == 000000 ]] && { echo 000000; exit; }
    read -r text <"$last"; ended=; [[ ! -e $last.end ]] || ended=ended
    echo "$last $text $ended"' _ "$OUTLAST_RUN_DIR/lease"
}

# Status 1: another job made that generation first.
_ol_lease_make() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" && printf "%s\n" "$3" >".new.$4" && ln ".new.$4" "$2"; s=$?; rm -f ".new.$4"; exit "$s"' _ \
    "$OUTLAST_RUN_DIR/lease" "$1" "job=$OUTLAST_JOB_ID restart=$OUTLAST_RESTART host=${HOSTNAME:-?}" "$OUTLAST_JOB_ID.$$"
}

# May the lease be taken from its holder? 0 yes; 1 no; 2 unknown; 3 not yet (our own parent is ending)
_ol_lease_is_free() {
  local holder=$1 restart=$2 state status=0
  if [[ $holder == "$OUTLAST_JOB_ID" ]]; then
    # The same job, requeued. With a higher count than ours we are the copy that was left behind.
    ((restart <= OUTLAST_RESTART)) || return 1
    return 0
  fi
  state=$(ol_sched_state "$holder") || status=$?
  ((status != 2)) || return 2
  ((status != 1)) || return 0
  case $state in
    state=running* | state=ending*)
      [[ $holder == "${OUTLAST_PARENT:-}" || $state == state=ending* ]] && return 3
      return 1
      ;;
  esac
  return 0
}

ol_lease_take() {
  local look holder restart waited_s=0 limit_s=${OUTLAST_LEASE_WAIT_S:-600} status
  while ((waited_s <= limit_s)); do
    look=$(_ol_lease_look) || return 2
    holder=${look#*job=}
    holder=${holder%% *}
    restart=${look#*restart=}
    restart=${restart%% *}
    printf -v OUTLAST_GENERATION '%06d' "$((10#${look%% *} + 1))"
    status=0
    [[ $look == 000000* || $look == *ended ]] || _ol_lease_is_free "$holder" "$restart" || status=$?
    if ((status == 0)); then
      ! _ol_lease_make "$OUTLAST_GENERATION" || return 0
      ol_log_info "another job took lease $OUTLAST_GENERATION first; looking again"
    elif ((status == 1)); then
      OUTLAST_WHY="the run is owned by job $holder, which is running"
      return 1
    fi
    ol_run_pause 2 || return 2
    waited_s=$((waited_s + 2))
  done
  OUTLAST_WHY="job $holder did not let go of the run within $limit_s s"
  return "$((status == 2 ? 2 : 1))"
}

ol_lease_is_lost() {
  local look
  look=$(_ol_lease_look) || return 2
  ((10#${look%% *} > 10#$OUTLAST_GENERATION))
}

ol_lease_release() {
  ol_shared touch "$OUTLAST_RUN_DIR/lease/$OUTLAST_GENERATION.end"
}

# lib/run.sh - the run's folder on the shared file system, and the job's own on the node
#
# Functions
#   ol_run_begin SCRIPT     node-local state, names, hosts; from here on every message goes to the job's log
#   ol_run_open             make or check the run's folder, keep the script for the successors
#   ol_run_pause SEC        sleep, but not on when the job is told to end (status 1)
#
# Sets     OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_HOSTS OUTLAST_LOCAL OUTLAST_STATE
#          OUTLAST_CKPT_DIR OUTLAST_STARTED_S OUTLAST_PROJECT
# Reads    the settings; OUTLAST_START_DIR, the folder the script was started in
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

# Status 1: no folder of our own on this node. /tmp may be shared, so nobody else's folder is taken.
_ol_run_local() {
  local sum
  # Two queues of one machine may count alike; a job and its requeue share run and number.
  sum=$(cksum <<<"$OUTLAST_RUN_DIR")
  OUTLAST_LOCAL=$OUTLAST_LOCAL_BASE/outlast.$OUTLAST_JOB_ID.${sum%% *}
  OUTLAST_STATE=$OUTLAST_LOCAL/state
  # A requeued job finds what its first run left on this node.
  [[ ! -O $OUTLAST_LOCAL ]] || rm -rf "$OUTLAST_LOCAL"
  mkdir -p "$OUTLAST_LOCAL_BASE" && mkdir -m 0700 "$OUTLAST_LOCAL" && mkdir "$OUTLAST_STATE"
}

ol_run_begin() {
  local script=$1
  printf -v OUTLAST_STARTED_S '%(%s)T' -1
  USER=${USER:-$(id -un)}
  # shellcheck disable=SC2153 # both names exist
  OUTLAST_RUN_DIR=$OUTLAST_RUNS_DIR/$OUTLAST_RUN
  OUTLAST_ATTEMPT=0 OUTLAST_GENERATION=000000 OUTLAST_DURABLE_AT_START=0 OUTLAST_DURABLE_STEP=0
  OUTLAST_EVIDENCE='' OUTLAST_FINGERPRINT='' OUTLAST_WHY='' OUTLAST_HOLD=''
  OUTLAST_JOB_ID=$(ol_sched_job_id) || {
    ol_log_error "this is a job script: give it to the scheduler (outlast submit, sbatch)"
    return 1
  }
  OUTLAST_RESTART=$(ol_sched_restart)
  mapfile -t OUTLAST_HOSTS < <(ol_sched_nodes)
  _ol_run_local || {
    ol_log_error "no node-local folder: cannot make $OUTLAST_LOCAL on ${HOSTNAME:-this node}"
    return 1
  }
  cp "$script" "$OUTLAST_STATE/job.sh"
  if [[ $OUTLAST_STORAGE == local ]]; then
    OUTLAST_CKPT_DIR=$OUTLAST_LOCAL/checkpoints
    mkdir "$OUTLAST_CKPT_DIR"
  else
    OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints
  fi
  ol_log_info "run $OUTLAST_RUN, job $OUTLAST_JOB_ID; the log goes on in $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART.log"
  # The scheduler's output file is on the shared file system: a write to it may hang, and we with it.
  exec >>"$OUTLAST_STATE/job.log" 2>&1
}

# Folders for the owner, readable by the group; in control/ the group may write, so that a teammate can stop the run.
_ol_run_make() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'umask 027; mkdir -p "$1" && cd "$1" &&
    mkdir -p checkpoints quarantine logs reports lease outbox tool &&
    { [[ -d control ]] || mkdir -m 2770 control; } && { [[ -e project_dir ]] || printf "%s\n" "$2" >project_dir; }' _ \
    "$OUTLAST_RUN_DIR" "${OUTLAST_PROJECT_DIR:-$(ol_sched_submit_dir)}"
}

# Every successor runs job.sh and tool/ as the owner: nobody else may be able to change them.
_ol_run_is_private() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" || exit
    for f in . job.sh tool; do
      [[ -e $f ]] || continue
      mode=$(stat -c "%a" "$f") || exit
      [[ -O $f && $mode =~ ^[0-7]?[0-7][0145][0145]$ ]] || { echo "outlast: $1/$f is not yours alone to write (mode $mode)"; exit 1; }
    done' _ "$OUTLAST_RUN_DIR"
}

# A job that was not submitted by the chain carries what its user rendered last: that is what goes on.
_ol_run_keep_script() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cmp -s "$1" "$2" || { umask 077; cp "$1" "$2.new" && chmod 0700 "$2.new" && mv -f "$2.new" "$2"; }' _ \
    "$OUTLAST_STATE/job.sh" "$OUTLAST_RUN_DIR/job.sh"
}

# Status 1: not usable, the reason is logged; 2: the shared file system does not answer.
ol_run_open() {
  local status=0
  _ol_run_make || status=$?
  ((status != 124)) || return 2
  ((status == 0)) || {
    ol_log_error "cannot make $OUTLAST_RUN_DIR; set runs_dir to a folder that you can write"
    return 1
  }
  _ol_run_is_private || return
  _ol_run_keep_script || return
  OUTLAST_PROJECT=$(ol_shared_print cat "$OUTLAST_RUN_DIR/project_dir") || return 2
}

ol_run_pause() {
  local tick
  for ((tick = 0; tick < $1; tick++)); do
    [[ ! -e $OUTLAST_STATE/term ]] || return 1
    sleep 1
  done
}

# lib/history.sh - what the ledger says of the jobs before this one
#
# Functions; each prints one word or number
#   ol_history_load             copy the run's ledger to the node: the questions below never touch the shared file system
#   ol_history_parent           the job that submitted this one, or nothing
#   ol_history_successors       jobs that the run's own jobs have submitted, newest first, without this one
#   ol_history_stuck STEP       how many jobs in a row, this one included, began at durable step STEP
#   ol_history_same PRINT STEP  how often a failure with this fingerprint and step has ended an attempt
#   ol_history_rapid SEC        how many attempts in a row crashed within SEC seconds
#   ol_history_jobs             how many jobs the run has had
#   ol_history_node_hours       how many node hours they took, whole numbers
#   ol_history_margin_s         the margin of the last job that was cut off at its walltime, else 0
#
# A `resumed` event (somebody looked and said go on) starts the counts anew.
# Reads    OUTLAST_STATE, OUTLAST_RUN_DIR, OUTLAST_JOB_ID
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# The newest 8 MB are enough for any of the counts.
ol_history_load() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c '[[ ! -e $1 ]] || tail -c 8000000 "$1" >"$2"' _ \
    "$OUTLAST_RUN_DIR/events.jsonl" "$OUTLAST_STATE/history.jsonl"
}

# awk over the whole ledger; get(KEY) is the field's value without its quotes. The lines are our own
# (lib/ledger.sh, ledger.py), so no JSON parser is needed; a line that was sent twice counts once.
_ol_history_awk() { # PROGRAM [VAR=VALUE]...
  local program=$1
  shift
  touch "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/events.jsonl"
  # shellcheck disable=SC2016 # awk's
  awk '
    function get(key) {
      if (!match($0, "\"" key "\":(\"[^\"]*\"|[^,}]*)")) return ""
      value = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
      gsub(/^"|"$/, "", value)
      return value
    }
    !/}$/ || seen[get("t") get("job") "." get("restart") "." get("seq") "." get("event")]++ { next }
    { event = get("event") }
    '"$program" me="$OUTLAST_JOB_ID" "$@" "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/events.jsonl"
}

ol_history_parent() {
  _ol_history_awk 'event == "submitted" && get("successor") == me { parent = get("job") }
    END { if (parent != "" && parent != me) print parent }'
}

ol_history_successors() {
  _ol_history_awk 'event == "submitted" && get("successor") != me { id[n++] = get("successor") }
    END { while (n-- > 0) print id[n] }' | head -n 5
}

# Jobs that were taken away from us (preempted, requeued) had no fair chance.
ol_history_stuck() {
  _ol_history_awk '
    event == "resumed" { n = 0 }
    event == "started" { name[++n] = get("job") "." get("restart"); step[n] = get("durable_step") }
    event == "ended" { class[get("job") "." get("restart")] = get("class") }
    END {
      for (; n > 0; n--) {
        if (class[name[n]] ~ /^(preempted|requeued|cancelled)$/) continue
        if (step[n] + 0 != want + 0) break
        count++
      }
      print count + 0
    }' want="$1"
}

ol_history_same() {
  _ol_history_awk '
    event == "resumed" { count = 0 }
    event == "ended" && get("fingerprint") == print_ && get("step") + 0 == want + 0 { count++ }
    END { print count + 0 }' print_="$1" want="$2"
}

ol_history_rapid() {
  _ol_history_awk '
    event == "resumed" { count = 0 }
    event == "ended" && get("fingerprint") != "" {
      if (get("ran_s") + 0 < limit + 0) count++; else count = 0
    }
    event == "ended" && get("class") ~ /^walltime/ { count = 0 }
    END { print count + 0 }' limit="$1"
}

ol_history_jobs() {
  _ol_history_awk 'event == "started" && !had[get("job")]++ { count++ } END { print count + 0 }'
}

ol_history_node_hours() {
  _ol_history_awk '
    event == "started" { nodes[get("job")] = get("nodes"); begun[get("job")] = get("t") }
    { last[get("job")] = get("t") }
    END { for (job in begun) sum += nodes[job] * (last[job] - begun[job]); printf "%d\n", sum / 3600 }'
}

ol_history_margin_s() {
  _ol_history_awk '
    event == "ended" && get("class") == "walltime_late" { margin = get("margin_s") }
    END { print margin + 0 }'
}

# lib/ledger.sh - the record of what happened: one JSON object a line (docs/ledger.md)
#
# Functions
#   ol_ledger_add EVENT [KEY=TEXT | KEY:=NUMBER]...   write an event, node-local and at once
#   ol_ledger_flush                                   append what is new to the run's events.jsonl
#   ol_ledger_json KEY=TEXT | KEY:=NUMBER ...         print the fields as `,"KEY":VALUE...`
#
# Reads    OUTLAST_STATE, OUTLAST_RUN_DIR, OUTLAST_RUN, OUTLAST_JOB_ID, OUTLAST_RESTART, OUTLAST_ATTEMPT
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# Print TEXT as the inside of a JSON string; control characters other than tab and newline are dropped,
# and the length is capped, so that one event stays under 4 KB (an append of that size is not torn).
_ol_ledger_escape() {
  local text=${1:0:800}
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  text=${text//[[:cntrl:]]/}
  printf '%s' "$text"
}

ol_ledger_json() {
  local field key value
  for field in "$@"; do
    key=${field%%=*}
    value=${field#*=}
    if [[ $key == *: && $value =~ ^-?[0-9]+(\.[0-9]+)?$ ]]; then
      printf ',"%s":%s' "${key%:}" "$value"
    elif [[ $key == *: ]]; then
      printf ',"%s":null' "${key%:}"
    else
      printf ',"%s":"' "$key"
      _ol_ledger_escape "$value"
      printf '"'
    fi
  done
}

# Several of our processes write events, so a lock on the node-local file numbers them.
ol_ledger_add() {
  local event=$1 file=$OUTLAST_STATE/events.jsonl now_s seq fields
  shift
  printf -v now_s '%(%s)T' -1
  fields=$(ol_ledger_json "$@")
  {
    flock -w 5 9
    seq=$(wc -l <"$file" 2>/dev/null)
    printf '{"t":%d,"run":"%s","job":"%s","restart":%d,"attempt":%d,"seq":%d,"event":"%s"%s}\n' \
      "$now_s" "$OUTLAST_RUN" "$OUTLAST_JOB_ID" "${OUTLAST_RESTART:-0}" "${OUTLAST_ATTEMPT:-0}" \
      "$((${seq:-0} + 1))" "$event" "$fields" >>"$file"
  } 9>>"$OUTLAST_STATE/events.lock"
}

# Status: 0 all is on the shared file system, else later. After an append whose end is not known the
# same events are sent again behind a line end: readers drop torn lines and what they have seen.
ol_ledger_flush() {
  local file=$OUTLAST_STATE/events.jsonl sent=0 size
  [[ -s $file ]] || return 0
  [[ -s $OUTLAST_STATE/events.sent ]] && read -r sent <"$OUTLAST_STATE/events.sent"
  size=$(stat -c %s "$file")
  ((size > sent)) || return 0
  # shellcheck disable=SC2016 # expanded by the child
  if ol_shared bash -c '{ [[ $5 = 0 ]] || echo; tail -c "+$(($2 + 1))" "$1" | head -c "$3"; } >>"$4"' _ \
    "$file" "$sent" "$((size - sent))" "$OUTLAST_RUN_DIR/events.jsonl" "${OUTLAST_LEDGER_TORN:-0}"; then
    printf '%d\n' "$size" >"$OUTLAST_STATE/events.sent"
    OUTLAST_LEDGER_TORN=0
  else
    OUTLAST_LEDGER_TORN=1
    return 1
  fi
}

# lib/environment.sh - the variables that trainers and their libraries need, whatever the site
#
# Functions
#   ol_environment_job                   all of it, as a job's settings have it; once MASTER_ADDR is known
#   ol_environment_default NAME VALUE    export NAME, unless the caller has set it (empty counts as set)
#   ol_environment_offline               nothing asks the internet, which compute nodes do not reach
#   ol_environment_online PROXY NO_PROXY the site's proxy
#   ol_environment_caches FOLDER         compilers keep their results in FOLDER, on the node
#   ol_environment_threads N             threads a rank; 0 leaves it to the library
#   ol_environment_wandb ID              every job of a run writes to one W&B run
#   ol_environment_deterministic         same input, same bits, as far as variables can do it
#   ol_environment_gpu ARCH              known faults of a kind of GPU
#   ol_environment_network IPV4 NAME...  IPv4, on those of the interfaces NAME that this host has
#   ol_environment_master HOST           print the one IPv4 address by which other nodes reach HOST
#   ol_environment_interface IPV4        print the name of this host's interface towards IPV4
#   ol_environment_fact FILE KEY         print a value of a site.toml, a list one item a line
#   ol_environment_site SITES HOST...    print the site whose `hosts` or `host_variable` fits this host
#
# Each variable was looked up in the library that reads it; repository, file and date stand beside it.
#
# Reads    ol_environment_job: MASTER_ADDR, OUTLAST_ONLINE, _PROXY, _NO_PROXY, _LOCAL, _THREADS, _RUN, _DETERMINISM,
#          _GPU_ARCH, _NET_INTERFACES
# Needs    log
# Sourcing it defines the functions above and does nothing else.

ol_environment_job() {
  if [[ ${OUTLAST_ONLINE:-0} == 1 ]]; then
    ol_environment_online "$OUTLAST_PROXY" "$OUTLAST_NO_PROXY"
  else
    ol_environment_offline
  fi
  ol_environment_caches "$OUTLAST_LOCAL/caches"
  ol_environment_threads "$OUTLAST_THREADS"
  ol_environment_wandb "$OUTLAST_RUN-${USER:-$EUID}"
  [[ ${OUTLAST_DETERMINISM:-0} != 1 ]] || ol_environment_deterministic
  ol_environment_gpu "$OUTLAST_GPU_ARCH"
  ol_environment_network "$MASTER_ADDR" ${OUTLAST_NET_INTERFACES[@]+"${OUTLAST_NET_INTERFACES[@]}"} || :
}

ol_environment_default() {
  [[ -v $1 ]] || export "$1=$2"
}

# huggingface_hub reads HF_HUB_OFFLINE, or else TRANSFORMERS_OFFLINE (src/huggingface_hub/constants.py,
# 2026-08-20); transformers before 5 reads its own name (src/transformers/utils/hub.py); datasets reads
# HF_DATASETS_OFFLINE, or else the hub's (src/datasets/config.py, 2026-07-31). Without them each rank
# tries to reach the hub and waits for a time-out. wandb: WANDB_MODE (wandb/sdk/wandb_settings.py,
# 2026-08-21); send the runs later with `wandb sync`. pip: PIP_<OPTION> (pip docs, "Configuration").
ol_environment_offline() {
  ol_environment_default HF_HUB_OFFLINE 1
  ol_environment_default TRANSFORMERS_OFFLINE 1
  ol_environment_default HF_DATASETS_OFFLINE 1
  # The library's own default, made visible: this is the folder to fill on a login node.
  ol_environment_default HF_HOME "${XDG_CACHE_HOME:-${HOME:-}/.cache}/huggingface"
  ol_environment_default WANDB_MODE offline
  ol_environment_default PIP_NO_INDEX 1
  ol_environment_default PIP_DISABLE_PIP_VERSION_CHECK 1
}

# curl and Python's urllib read the names in lower case, Go programs both, so both are set.
ol_environment_online() {
  local proxy=$1 no_proxy_list=$2 name
  for name in http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; do
    ol_environment_default "$name" "$proxy"
  done
  ol_environment_default no_proxy "$no_proxy_list"
  ol_environment_default NO_PROXY "$no_proxy_list"
}

# Their default is under $HOME, where thousands of ranks meet on one file system and its locks.
#   TRITON_CACHE_DIR             triton-lang/triton python/triton/knobs.py, class cache_knobs
#   TORCHINDUCTOR_CACHE_DIR      pytorch/pytorch torch/_inductor/runtime/cache_dir_utils.py
#   MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR   OLCF, software/analytics/pytorch_frontier.rst, 2026-07-22:
#                                "Needed to bypass MIOpen, Disk I/O Errors"
#   ROCFFT_RTC_CACHE_PATH        a file, not a folder (ROCm/rocFFT docs); a cache in $HOME does not scale (OLCFDEV-1079)
#   CUDA_CACHE_PATH              CUDA C++ Programming Guide, "CUDA Environment Variables"
ol_environment_caches() {
  local folder=$1
  ol_environment_default TRITON_CACHE_DIR "$folder/triton"
  ol_environment_default TORCHINDUCTOR_CACHE_DIR "$folder/inductor"
  ol_environment_default MIOPEN_USER_DB_PATH "$folder/miopen"
  ol_environment_default MIOPEN_CUSTOM_CACHE_DIR "$folder/miopen"
  ol_environment_default ROCFFT_RTC_CACHE_PATH "$folder/rocfft.db"
  ol_environment_default CUDA_CACHE_PATH "$folder/cuda"
}

# OpenMP's default is all cores for each rank; PyTorch's CPU operators follow it.
ol_environment_threads() {
  ((${1:-0} > 0)) || return 0
  ol_environment_default OMP_NUM_THREADS "$1"
}

# wandb/sdk/wandb_settings.py, 2026-08-21: `run_id` may not hold any of :;,#?/' and no blank at its ends;
# `resume="allow"` goes on with a run of that ID, or makes it. The ID is unique in its W&B project.
ol_environment_wandb() {
  ol_environment_default WANDB_RUN_ID "${1//[:;,#?\/\' ]/-}"
  ol_environment_default WANDB_RESUME allow
}

# The trainer must ask for deterministic algorithms itself; these are the switches outside of its code.
#   CUBLAS_WORKSPACE_CONFIG        pytorch/pytorch docs/source/notes/randomness.rst; cuBLAS 10.2 and newer
#   PYTHONHASHSEED                 docs.python.org, "Command line and environment"
#   FLASH_ATTENTION_DETERMINISTIC  huggingface/transformers 5.24, trainer_utils.py, enable_full_determinism
#   NVTE_ALLOW_NONDETERMINISTIC_ALGO, NCCL_ALGO   NVIDIA/Megatron-LM, arguments of --deterministic-mode
#   ROCBLAS_DEFAULT_ATOMICS_MODE   ROCm/rocBLAS library/src/handle.cpp; 0: no atomics
ol_environment_deterministic() {
  ol_environment_default CUBLAS_WORKSPACE_CONFIG :4096:8
  ol_environment_default PYTHONHASHSEED 0
  ol_environment_default FLASH_ATTENTION_DETERMINISTIC 1
  ol_environment_default NVTE_ALLOW_NONDETERMINISTIC_ALGO 0
  ol_environment_default NCCL_ALGO Ring
  ol_environment_default ROCBLAS_DEFAULT_ATOMICS_MODE 0
}

# Triton's AMD backend reads both (triton-lang/triton python/triton/knobs.py, class amd_knobs; on by default
# since 3.5). Buffer operations have 32-bit offsets: ROCm/triton #830 (2025-07) is a memory access fault in
# Inductor's kernels that goes away with AMDGCN_USE_BUFFER_OPS=0; PyTorch's release branches reverted the
# default for it (triton-lang/triton #7456, #8013). The atomics take effect only with the operations on.
ol_environment_gpu() {
  [[ $1 == gfx90a ]] || return 0
  ol_environment_default AMDGCN_USE_BUFFER_OPS 0
  ol_environment_default AMDGCN_USE_BUFFER_ATOMICS 0
}

# Print this host's IPv4 addresses: `ADDRESS LABEL` a line. The label is what getifaddrs(3) calls the interface,
# so what NCCL and Gloo compare with; it can differ from the device (`hsn0:chn` on device hsn0, seen on Slingshot).
# Status 2: `ip` is missing or says nothing.
_ol_environment_addresses() {
  local lines
  # /usr/sbin: where `ip` is on SLES, and not in a user's PATH.
  lines=$(PATH=$PATH:/usr/sbin:/sbin timeout 10 ip -o -4 address show up 2>/dev/null) || return 2
  [[ -n $lines ]] || return 2
  sed -n 's,^[0-9]*: [^ ]* *inet \([0-9.]*\)[/ ].* \([^ ]*\)\\.*$,\1 \2,p' <<<"$lines"
}

# Status: 0 printed, 1 no route or not an address, 2 unknown (`ip` is missing).
ol_environment_interface() {
  local to=$1 addresses route source address label
  addresses=$(_ol_environment_addresses) || return 2
  route=$(PATH=$PATH:/usr/sbin:/sbin timeout 10 ip -o -4 route get "$to" 2>/dev/null) || return 1
  # The kernel's source address for the route; for an address of this host it is that address itself.
  source=$(sed -n 's/.* src \([0-9.]*\).*/\1/p' <<<"$route")
  while read -r address label; do
    [[ $address == "$source" ]] || continue
    printf '%s\n' "$label"
    return 0
  done <<<"$addresses"
  return 1
}

# Print those of the interfaces NAME that have an IPv4 address on this host, comma separated.
_ol_environment_present() {
  local addresses name list=''
  addresses=$(_ol_environment_addresses) || return 2
  for name in "$@"; do
    [[ ! $addresses =~ \ $name(:[^$'\n']*)?($'\n'|$) ]] || list+=,$name
  done
  printf '%s\n' "${list#,}"
}

# NCCL_SOCKET_FAMILY  AF_INET or AF_INET6, anything else is ignored (NVIDIA/nccl src/misc/socket.cc, 2026-06-11;
#                     ROCm/rccl the same, 2024-10-24)
# NCCL_SOCKET_IFNAME  a list of prefixes; `=` in front: of whole names; a part after `:` is a port
#                     (same file, and src/misc/utils.cc). Prefixes, since a label can have `:chn` at its end.
# GLOO_SOCKET_IFNAME  names, compared whole; with several, each pair of ranks uses them in turn
#                     (pytorch/pytorch torch/csrc/distributed/c10d/init.cpp). One is enough for its small messages,
#                     and unset it takes the address of the host's name: 127.0.1.1 on Debian.
# TP_SOCKET_IFNAME    one name, compared whole (pytorch/pytorch torch/csrc/distributed/rpc/tensorpipe_agent.cpp)
# IPV4 is the master's; empty: not known, the names alone must do.
# Status 1: no interface found; IPv4 is asked for, and the names are left to the libraries.
ol_environment_network() {
  local to=$1 towards='' present=''
  shift
  ol_environment_default NCCL_SOCKET_FAMILY AF_INET
  [[ -z $to ]] || towards=$(ol_environment_interface "$to") || towards=''
  (($# == 0)) || present=$(_ol_environment_present "$@") || present=''
  # To one's own loopback (one machine, no network) the site's names are of no use.
  [[ $towards != lo ]] || present=''
  [[ -n $present ]] || present=${towards%%:*}
  [[ -n $towards ]] || towards=${present%%,*}
  if [[ -z $present ]]; then
    [[ -z $to ]] || ol_log_warn "no network interface found towards $to; NCCL and Gloo choose by themselves"
    return 1
  fi
  ol_environment_default NCCL_SOCKET_IFNAME "$present"
  ol_environment_default GLOO_SOCKET_IFNAME "$towards"
  ol_environment_default TP_SOCKET_IFNAME "$towards"
}

# Trainers get a number, not a name: a name can lead to IPv6, or to 127.0.1.1 on the node itself.
# Status 1: HOST has no such address, or several; one line says so.
ol_environment_master() {
  local host=$1 found address all=()
  found=$(timeout 10 getent ahostsv4 "$host" 2>/dev/null) || found=''
  while read -r address _; do
    [[ -z $address || $address == 127.* || $address == 0.* || " ${all[*]-} " == *" $address "* ]] || all+=("$address")
  done <<<"$found"
  if ((${#all[@]} != 1)); then
    ol_log_error "FATAL: $host must have one IPv4 address that other nodes reach, and has ${#all[@]}" \
      "(${all[*]-}; getent ahostsv4 $host says: ${found//$'\n'/, })"
    return 1
  fi
  printf '%s\n' "${all[0]}"
}

# Reads the plain form in which site files are written: the key at the start of its line, the value on the same line.
# Status 1: the file has no such key.
ol_environment_fact() {
  local file=$1 key=$2 line
  local item="'([^']*)'|\"([^\"]*)\"|(true|false|[0-9]+)"
  line=$(sed -n "/^\[/q; s/^$key *= *//p" "$file") || return 1
  [[ -n $line ]] || return 1
  while [[ $line =~ $item ]]; do
    printf '%s\n' "${BASH_REMATCH[1]}${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
    line=${line#*"${BASH_REMATCH[0]}"}
  done
}

# Status: 0 one site fits, 1 none or several (nothing printed).
ol_environment_site() {
  local sites=$1 file found=()
  shift
  for file in "$sites"/*/site.toml; do
    ! _ol_environment_fits "$file" "$@" || found+=("${file%/site.toml}")
  done
  ((${#found[@]} == 1)) || return 1
  printf '%s\n' "${found[0]##*/}"
}

# Is this host one of the site's: by a variable that the site sets everywhere, or by one of the names HOST?
_ol_environment_fits() {
  local file=$1 variable pattern patterns host
  shift
  variable=$(ol_environment_fact "$file" host_variable) || variable=''
  if [[ $variable == *=* ]]; then
    host=${variable%%=*}
    [[ ${!host-} != "${variable#*=}" ]] || return 0
  fi
  patterns=$(ol_environment_fact "$file" hosts) || patterns=''
  while read -r pattern; do
    for host in "$@"; do
      [[ -z $pattern || ! $host =~ ^($pattern)$ ]] || return 0
    done
  done <<<"$patterns"
  return 1
}

# lib/shim.sh - stands between the launcher and the trainer, once a rank
#
# Functions
#   ol_shim CMD...       run CMD as a rank: sets torch's rank variables, passes signals on, reports a bad end
#   ol_shim_text         print the shim as Bash text for `bash -c`: ranks read no file of ours
#
# The launch is told to stop with USR2 (srun forwards it to the ranks without asking its controller;
# slurm-facts: `scancel -s` to a step can arrive twice, and needs the controller). The shim makes TERM of
# it. A TERM that reaches a rank therefore comes from outside, and rank 0 says so.
#
# Prints   on stderr, read by lib/watch.sh:
#            outlast: rank 0 of 16 on HOST started
#            outlast: rank 0 got TERM from outside at EPOCH
#            outlast: rank 5 on HOST ended with code 3 at EPOCH
#            outlast: rank 5 on HOST ended with signal SEGV at EPOCH
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# Launchers name ranks differently; torch reads these names.
_ol_shim_ranks() {
  local devices
  export RANK=${SLURM_PROCID:-${RANK:-0}} WORLD_SIZE=${SLURM_NTASKS:-${WORLD_SIZE:-1}}
  export NODE_RANK=${SLURM_NODEID:-${NODE_RANK:-0}} LOCAL_RANK=${SLURM_LOCALID:-${LOCAL_RANK:-0}}
  export LOCAL_WORLD_SIZE=${OUTLAST_RANKS_PER_NODE:-1}
  # With --gpus-per-task each rank sees one device, number 0, and trainers take LOCAL_RANK as the
  # device number: so it must be 0 there ("invalid device ordinal" otherwise).
  devices=${ROCR_VISIBLE_DEVICES:-${CUDA_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}
  if [[ -n $devices && $devices != *,* ]] && ((LOCAL_WORLD_SIZE > 1)); then
    export LOCAL_RANK=0
  fi
}

# A signal can arrive twice within milliseconds; a trainer that aborts on the second one would die.
_ol_shim_pass() {
  local kind=$1 now_s
  printf -v now_s '%(%s)T' -1
  if [[ $kind == USR1 ]]; then
    ((now_s - OL_SHIM_SAVED_S > 2)) || return 0
    OL_SHIM_SAVED_S=$now_s
  else
    [[ $kind == USR2 || $RANK != 0 ]] || printf 'outlast: rank 0 got TERM from outside at %d\n' "$now_s" >&2
    ((OL_SHIM_TERMS == 0)) || return 0
    OL_SHIM_TERMS=1
    kind=TERM
  fi
  [[ -z ${OL_SHIM_CHILD:-} ]] || kill -s "$kind" "$OL_SHIM_CHILD" 2>/dev/null
}

_ol_shim_report() {
  local code=$1 now_s what="code $1"
  ((code != 0)) || return 0
  printf -v now_s '%(%s)T' -1
  ((code <= 128)) || what="signal $(kill -l "$((code - 128))" 2>/dev/null)"
  printf 'outlast: rank %d on %s ended with %s at %d\n' "$RANK" "${HOSTNAME:-?}" "$what" "$now_s" >&2
}

ol_shim() {
  local code=0
  OL_SHIM_TERMS=0 OL_SHIM_SAVED_S=0 OL_SHIM_CHILD=''
  trap '_ol_shim_pass TERM' TERM
  trap '_ol_shim_pass USR1' USR1
  trap '_ol_shim_pass USR2' USR2
  _ol_shim_ranks
  ((RANK != 0)) || printf 'outlast: rank 0 of %d on %s started\n' "$WORLD_SIZE" "${HOSTNAME:-?}" >&2
  # With cgroups a signal reaches only the process that the launcher started, this one; it stays in
  # front of the trainer so that there is somebody to say how the rank ended.
  "$@" &
  OL_SHIM_CHILD=$!
  # `wait` returns early when a trapped signal arrives; only a dead child ends the loop.
  while :; do
    wait "$OL_SHIM_CHILD"
    code=$?
    kill -0 "$OL_SHIM_CHILD" 2>/dev/null || break
  done
  wait "$OL_SHIM_CHILD" 2>/dev/null && code=0 || code=$?
  _ol_shim_report "$code"
  return "$code"
}

ol_shim_text() {
  declare -f ol_shim _ol_shim_ranks _ol_shim_pass _ol_shim_report "$@"
  # shellcheck disable=SC2016 # expanded by the rank
  printf 'ol_shim "$@"; exit\n'
}

# lib/mail.sh - tell a person, without ever waiting for it
#
# Functions
#   ol_mail_send SUBJECT TEXT   send to OUTLAST_MAIL_TO; what cannot be sent from here stays in RUN/outbox/
#
# Reads    OUTLAST_MAIL_TO OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_RUN_DIR
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

_ol_mail_text() { # SUBJECT TEXT
  local subject="[outlast] $OUTLAST_RUN: $1"
  subject=${subject//[[:cntrl:]]/ }
  printf 'To: %s\nSubject: %s\nContent-Type: text/plain; charset=utf-8\n\n%s\n\nJob %s on %s, run folder %s\n' \
    "$OUTLAST_MAIL_TO" "$subject" "$2" "$OUTLAST_JOB_ID" "${HOSTNAME:-?}" "$OUTLAST_RUN_DIR"
}

# Hand FILE to the site's own command (which reads a whole mail), to sendmail, or to mail. Status 1: none took it.
_ol_mail_deliver() { # FILE SUBJECT
  local -x PATH=$PATH:/usr/sbin:/usr/lib
  # shellcheck disable=SC2016 # expanded by the child
  if [[ -n ${OUTLAST_MAIL_COMMAND:-} ]]; then
    ol_bounded 10 bash -c "$OUTLAST_MAIL_COMMAND"' <"$1"' _ "$1"
  elif command -v sendmail >/dev/null; then
    ol_bounded 10 bash -c 'sendmail -t -oi <"$1"' _ "$1"
  elif command -v mail >/dev/null; then
    ol_bounded 10 bash -c 'sed "1,/^$/d" "$1" | mail -s "$2" -- "$3"' _ \
      "$1" "[outlast] $OUTLAST_RUN: $2" "$OUTLAST_MAIL_TO"
  else
    return 1
  fi
}

ol_mail_send() {
  local file
  [[ -n ${OUTLAST_MAIL_TO:-} ]] || return 0
  printf -v file '%s/mail.%(%s)T.%d' "$OUTLAST_STATE" -1 "$RANDOM"
  _ol_mail_text "$@" >"$file"
  if _ol_mail_deliver "$file" "$1"; then
    return 0
  fi
  ol_log_warn "no mail from this node: the message waits in $OUTLAST_RUN_DIR/outbox"
  ol_shared cp "$file" "$OUTLAST_RUN_DIR/outbox/" || return 0
}

# lib/py.sh - the one door from Bash to Python
#
# Functions
#   ol_py SEC VERB ARGS...   run `outlast VERB ARGS` for at most SEC seconds. What fails costs a warning, never the run
#   ol_py_install            keep the run's own copy of the helpers (RUN/tool/VERSION), made by its first job
#
# Reads    OUTLAST_PYTHON (an interpreter), OUTLAST_PYTHON_PATH (that of outlast's environment), OUTLAST_ROOT,
#          OUTLAST_RUN_DIR, OUTLAST_VERSION
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

ol_py() {
  local limit_s=$1 tool=$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION status=0
  shift
  (cd / && PYTHONPATH=$tool PYTHONDONTWRITEBYTECODE=1 ol_bounded "$limit_s" "$OUTLAST_PYTHON" -m outlast "$@" 2>"$OUTLAST_STATE/py.err") ||
    status=$?
  ((status == 0)) || ol_log_warn "outlast $1 did not work (status $status): $(tail -n 1 "$OUTLAST_STATE/py.err" 2>/dev/null)"
  return 0
}

ol_py_install() {
  local tool=$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION
  ! ol_shared test -d "$tool" || return 0
  PYTHONPATH=$OUTLAST_ROOT/pyhelpers ol_bounded 120 "$OUTLAST_PYTHON_PATH" -m outlast toolcopy "$tool" ||
    ol_log_warn "no copy of outlast's helpers in $tool: reports and mails will be short"
}

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

# lib/scheduler/slurm.sh - everything that is said to Slurm, and nothing else says it
#
# Every question returns 0 yes or done, 1 no or refused, 2 no answer.
# Functions
#   ol_sched_submit SCRIPT NAME [depend=ID] [exclude=A,B] [delay_s=N] [output=FILE] [dir=DIR]
#                                 print the new job's id; 1: refused for good, the reason on stderr
#   ol_sched_find NAME            print the id of my pending or running job of that name
#   ol_sched_state ID             print state=pending|running|ending|ended verdict=... restarts=N (below)
#   ol_sched_cancel ID...         cancel jobs, in one call
#   ol_sched_end_time [ID]        print when the allocation ends, UTC seconds since 1970
#   ol_sched_exclude ID A,B       exclude nodes from a pending job of mine
#   ol_sched_known_nodes A...     print those that this cluster has, one a line
#   ol_sched_down_nodes A...      print those that are down, one a line
# and inside a job
#   ol_sched_job_id, ol_sched_restart, ol_sched_nodes, ol_sched_submit_dir
#   ol_sched_on_each SEC NODES CMD...       run CMD once on each of the (comma separated) nodes
#   ol_sched_launch NODES RANKS_PER_NODE CMD...   become the launcher (exec): call it in a subshell
#   ol_sched_signal_launch PID save|stop    tell the ranks
#   ol_sched_kill_launch PID                kill all ranks
#
# verdict: none, ok, failed, timelimit, node, requeued, preempted, cancelled
# Reads    SLURM_* of the job, OUTLAST_LAUNCH_ARGS
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

_ol_slurm_gives_no_answer() {
  [[ $1 == *"Unable to contact"* || $1 == *"Socket timed out"* || $1 == *"onnection"* ||
    $1 == *"Unexpected message received"* || $1 == *"Zero Bytes"* || $1 == *"emporarily unable"* ||
    $1 == *"try again"* || -z $1 ]]
}

# sbatch inside a job leaks the parent's shape (SLURM_NTASKS, ...) into the child, and SBATCH_* of the
# user beats the script's directives: slurm-facts 14, 3.
_ol_slurm_sbatch() {
  local name
  for name in "${!SLURM_@}" "${!SBATCH_@}"; do
    [[ $name == SLURM_CONF ]] || unset "$name"
  done
  timeout -k 2 30 sbatch --parsable "$@"
}

ol_sched_submit() {
  local script=$1 name=$2 args=() option answer
  shift 2
  for option in "$@"; do
    case $option in
      depend=*) args+=(--dependency="afterany:${option#*=}") ;;
      exclude=*) args+=(--exclude="${option#*=}") ;;
      delay_s=[1-9]*) args+=(--begin="now+${option#*=}seconds") ;;
      output=*) args+=(--output="${option#*=}") ;;
      dir=*) args+=(--chdir="${option#*=}") ;;
    esac
  done
  if answer=$(_ol_slurm_sbatch --job-name="$name" "${args[@]}" "$script" 2>&1); then
    answer=${answer##*$'\n'}
    printf '%s\n' "${answer%%;*}"
  elif _ol_slurm_gives_no_answer "$answer"; then
    return 2
  else
    printf '%s\n' "${answer//$'\n'/ }" >&2
    return 1
  fi
}

ol_sched_find() {
  local answer
  answer=$(timeout -k 2 30 squeue --me --noheader --name="$1" --states=PD,R,CF,S --format=%i 2>/dev/null) || return 2
  [[ -n $answer ]] || return 1
  printf '%s\n' "${answer%%$'\n'*}"
}

_ol_slurm_field() { # TEXT NAME
  local rest=" $1"
  [[ $rest == *" $2="* ]] || return 1
  rest=${rest#*" $2="}
  printf '%s\n' "${rest%% *}"
}

# Source: slurm-facts, "What tells the endings apart inside the TERM trap".
_ol_slurm_verdict() { # STATE REASON RESTARTS PREEMPT_TIME MINE
  local state=$1 reason=$2 restarts=$3 preempted=$4 mine=$5
  if [[ $mine == 1 ]] && ((restarts > ${SLURM_RESTART_COUNT:-0})); then
    echo requeued
  elif [[ $reason == job_requeued_in_held_state ]]; then
    echo requeued
  elif [[ $state == TIMEOUT || $state == DEADLINE || $state == COMPLETING && $reason == TimeLimit ]]; then
    echo timelimit
  elif [[ $state == NODE_FAIL || $state == BOOT_FAIL || $state == COMPLETING && $reason == NodeDown ]]; then
    echo node
  elif [[ $state == PREEMPTED || -n $preempted && $preempted != None && $state =~ ^(RUNNING|COMPLETING)$ ]]; then
    echo preempted
  elif [[ $state == CANCELLED* || $state == COMPLETING && $mine == 1 ]]; then
    # The script is alive and the job is ending for none of the reasons above: somebody cancelled it.
    echo cancelled
  elif [[ $state == COMPLETED ]]; then
    echo ok
  elif [[ $state == FAILED || $state == OUT_OF_MEMORY ]]; then
    echo failed
  else
    echo none
  fi
}

ol_sched_state() {
  local id=$1 text state reason restarts preempted verdict phase mine=0
  if ! text=$(timeout -k 2 "${OUTLAST_QUERY_LIMIT_S:-20}" scontrol show job -o "$id" 2>&1); then
    [[ $text == *"Invalid job id"* ]] && return 1
    return 2
  fi
  state=$(_ol_slurm_field "$text" JobState) || return 2
  reason=$(_ol_slurm_field "$text" Reason)
  restarts=$(_ol_slurm_field "$text" Restarts)
  preempted=$(_ol_slurm_field "$text" PreemptTime)
  [[ $id != "${SLURM_JOB_ID:-}" ]] || mine=1
  verdict=$(_ol_slurm_verdict "$state" "$reason" "${restarts:-0}" "$preempted" "$mine")
  case $state in
    PENDING | REQUEUE*) phase=pending ;;
    RUNNING | CONFIGURING | SUSPENDED) phase=running ;;
    COMPLETING) phase=ending ;;
    *) phase=ended ;;
  esac
  printf 'state=%s verdict=%s restarts=%d\n' "$phase" "$verdict" "${restarts:-0}"
}

# A cancel of an unknown job is silent and 0: slurm-facts, section 3.
ol_sched_cancel() {
  timeout -k 2 30 scancel "$@" 2>/dev/null || return 2
}

ol_sched_end_time() {
  local answer
  answer=$(timeout -k 2 30 squeue --noheader --jobs="${1:-$SLURM_JOB_ID}" --format=%e 2>/dev/null) || return 2
  [[ $answer == [0-9]*T* ]] || return 2
  date -d "$answer" +%s 2>/dev/null || return 2
}

ol_sched_exclude() {
  timeout -k 2 30 scontrol update jobid="$1" ExcNodeList="$2" >/dev/null 2>&1 || return 2
}

ol_sched_known_nodes() {
  local known node
  known=$(timeout -k 2 30 sinfo --noheader --Node --format=%N 2>/dev/null) || return 2
  for node in "$@"; do
    [[ $'\n'$known$'\n' != *$'\n'"$node"$'\n'* ]] || printf '%s\n' "$node"
  done
}

ol_sched_down_nodes() {
  local IFS=,
  timeout -k 2 30 sinfo --noheader --Node --states=down,fail --nodes="$*" --format=%N 2>/dev/null || return 2
}

ol_sched_job_id() {
  [[ -n ${SLURM_JOB_ID:-} ]] || return 1
  printf '%s\n' "$SLURM_JOB_ID"
}

ol_sched_restart() { printf '%d\n' "${SLURM_RESTART_COUNT:-0}"; }
ol_sched_nodes() { scontrol show hostnames "$SLURM_JOB_NODELIST"; }
ol_sched_submit_dir() { printf '%s\n' "${SLURM_SUBMIT_DIR:-$PWD}"; }

# --overlap: the training step holds every core and GPU.
ol_sched_on_each() {
  local limit_s=$1 hosts=$2 count
  shift 2
  count=${hosts//[!,]/}
  count=$((${#count} + 1))
  timeout -k 5 "$limit_s" srun --overlap --export=ALL --nodes="$count" --ntasks="$count" --ntasks-per-node=1 \
    --cpus-per-task=1 --nodelist="$hosts" --input=none "$@"
}

# Slurm's own reactions to a dead rank are off (-K hides which rank was first, -W kills without a TERM:
# slurm-facts 18); the watch looks at the shim's lines instead. --label tells whose line it is.
ol_sched_launch() {
  local hosts=$1 ranks_per_node=$2 count
  shift 2
  count=${hosts//[!,]/}
  count=$((${#count} + 1))
  exec srun --export=ALL --overlap --job-name=outlast-train --nodes="$count" --ntasks="$((count * ranks_per_node))" \
    --ntasks-per-node="$ranks_per_node" --nodelist="$hosts" --distribution=block --kill-on-bad-exit=0 --wait=0 \
    --label --input=none "${OUTLAST_LAUNCH_ARGS[@]}" "$@"
}

# srun hands USR1 and USR2 on as they are, once, without its controller (slurm-facts 8 and section 9).
ol_sched_signal_launch() {
  case $2 in
    save) kill -s USR1 "$1" ;;
    stop) kill -s USR2 "$1" ;;
  esac 2>/dev/null
}

# TERM to srun is KILL for all its ranks (slurm-facts 8). A srun that is left is asked for through the controller.
ol_sched_kill_launch() {
  local pid=$1 tick step
  kill -s TERM "$pid" 2>/dev/null
  for ((tick = 0; tick < 100; tick++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -s KILL "$pid" 2>/dev/null
  step=$(timeout -k 2 20 squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' 2>/dev/null)
  while read -r step _; do
    timeout -k 2 20 scancel --signal=KILL "$step" 2>/dev/null
  done < <(grep ' outlast-train$' <<<"$step")
  return 0
}

main "$@"; exit
