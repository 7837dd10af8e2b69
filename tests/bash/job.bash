# shellcheck shell=bash
# tests/bash/job.bash - a job on one node, as ol_run_begin leaves it, with a scheduler that only takes notes
#
# Each file of tests on the supervisor starts with `load job`. Its lib code runs under -u and pipefail, as in a rendered script.
# A call that may return non-zero is made by `run`, or by `status_of CALL...` where it sets variables.
load helper

setup() { a_job; }

teardown() {
  local pid
  for pid in "${STARTED[@]:-}"; do
    [[ -n $pid ]] || continue
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}

# The process is ended with the test: STARTED is read by teardown.
STARTED=()
ends_with_the_test() { STARTED+=("$1"); }

# Sets `status` without a subshell, so that what CALL sets is there afterwards. Without -T, bats does not look at
# each of its commands, which takes longer than the commands.
status_of() {
  set +T
  status=0
  "$@" || status=$?
  set -T
}

libs() {
  local file
  for file in "$ROOT"/lib/*.sh; do
    # The front door acts on whoever sources it.
    # shellcheck disable=SC1090 # each file of lib/
    [[ $file == */env.sh ]] || source "$file"
  done
}

now() { date +%s; }

settings() {
  OUTLAST_VERSION=1.0 OUTLAST_SITE=here OUTLAST_SCHEDULER=slurm OUTLAST_RUN=demo OUTLAST_NODES=1 OUTLAST_RANKS_PER_NODE=2
  OUTLAST_WALLTIME_S=3600 OUTLAST_EXCLUDE='' OUTLAST_BAD_NODES='' OUTLAST_CHAIN=1 OUTLAST_SUCCESSOR=end OUTLAST_ONLINE=0
  OUTLAST_DETERMINISM=0 OUTLAST_GPU_ARCH='' OUTLAST_THREADS=1 OUTLAST_PRESET=hf OUTLAST_STORAGE=local
  OUTLAST_NET_INTERFACES=() OUTLAST_LAUNCH_ARGS=() OUTLAST_COMMAND=(train) OUTLAST_RESUME_ARGS=(--resume '{ckpt}')
  OUTLAST_CKPT_PREFIX=checkpoint- OUTLAST_CKPT_COMPLETE=trainer_state.json OUTLAST_CKPT_QUIET_S=0
  OUTLAST_CKPT_KEEP=3 OUTLAST_CKPT_KEEP_BEST=1 OUTLAST_CKPT_KEEP_EVERY=0 OUTLAST_CKPT_GRACE_S=0 OUTLAST_CKPT_COPIER=plain OUTLAST_CKPT_WRITERS=16 OUTLAST_CKPT_MEMORY_GIB=0 OUTLAST_CKPT_MIB_PER_S=0 OUTLAST_SHARDED=0 OUTLAST_STAGE_IN=all OUTLAST_CKPT_INTERVAL_S=60 OUTLAST_STEP_REGEX='step ([0-9]+)' OUTLAST_STEP_ZERO_COUNTS=0
  OUTLAST_EVAL_REGEX='(evaluating.*)' OUTLAST_SAVE_REGEX='(saving)' OUTLAST_WATCHDOG=1 OUTLAST_IDLE_S=0 OUTLAST_START_LIMIT_S=0
  OUTLAST_EVAL_LIMIT_S=0 OUTLAST_SAVE_LIMIT_S=0 OUTLAST_HEARTBEAT='' OUTLAST_STACK_SIGNAL='' OUTLAST_TOKEN=7.0.3.1
  OUTLAST_TARGET_STEP=0 OUTLAST_FINISH_REGEX='' OUTLAST_SAVE_SIGNAL='' OUTLAST_SAVES_ON_STOP=1
  OUTLAST_MARGIN_S=300 OUTLAST_STARTUP_S=60 OUTLAST_STOP_WAIT_S=20 OUTLAST_TRAIN_AT_MOST_S=0 OUTLAST_POLL_S=30
  OUTLAST_PREPARE_LIMIT_S=60 OUTLAST_ATTEMPTS=3 OUTLAST_SWAPS=4 OUTLAST_RECOVERY_S=3600 OUTLAST_STUCK_JOBS=3 OUTLAST_SAME_FAILURE=3 OUTLAST_RAPID_S=600
  OUTLAST_RAPID_WAIT_S=60 OUTLAST_MAX_JOBS=0 OUTLAST_MAX_NODE_HOURS=0 OUTLAST_END_DATE='' OUTLAST_MAIL_TO=''
  OUTLAST_ON_DURABLE=() OUTLAST_ON_DURABLE_EVERY=1 OUTLAST_ON_DURABLE_LIMIT_S=60 OUTLAST_SCORE_MIN='' OUTLAST_SCORE_MAX=''
  OUTLAST_FROM='' OUTLAST_PIN_FILES=() OUTLAST_PIN_COMMANDS=() OUTLAST_PIN_GIT=0 OUTLAST_CRASH_PATTERNS='' OUTLAST_PYTHON=python3
  OUTLAST_MAIL_HOOKS='' OUTLAST_MAIL_ON='rapid_crash held early_exit finished no_spares refused no_successor ended_unknown not_durable damaged'
  OUTLAST_MAIL_COMMAND='' OUTLAST_NOT_DURABLE_S=0 OUTLAST_SHARED_LIMIT_S=20 OUTLAST_PROXY='' OUTLAST_NO_PROXY=''
  OUTLAST_PREFLIGHT=0
}

a_job() {
  set +T
  set -uo pipefail
  libs
  settings
  OUTLAST_RUN_DIR=$BATS_TEST_TMPDIR/lake/demo OUTLAST_LOCAL=$BATS_TEST_TMPDIR/node
  OUTLAST_STATE=$OUTLAST_LOCAL/state OUTLAST_CKPT_DIR=$OUTLAST_LOCAL/checkpoints
  OUTLAST_PROJECT=$BATS_TEST_TMPDIR/project OUTLAST_START_DIR=$OUTLAST_PROJECT
  OUTLAST_LOG=$OUTLAST_LOCAL/attempt.1.log
  OUTLAST_SAID=$OUTLAST_STATE/attempt.1.said
  mkdir -p "$OUTLAST_RUN_DIR"/{checkpoints,quarantine,logs,lease,control,outbox} "$OUTLAST_STATE" \
    "$OUTLAST_CKPT_DIR" "$OUTLAST_PROJECT"
  OUTLAST_JOB_ID=7 OUTLAST_RESTART=0 OUTLAST_ATTEMPT=1 OUTLAST_HOSTS=(n1) OUTLAST_NODE_LIST=n1
  OUTLAST_STARTED_S=$(now)
  OUTLAST_GENERATION=000003 OUTLAST_PARENT='' OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_STEP='' OUTLAST_EVIDENCE=''
  OUTLAST_FIRST_STEP='' OUTLAST_RESUME_STEP='' OUTLAST_DURABLE_AT_START=0 OUTLAST_DURABLE_STEP=0
  OUTLAST_LAUNCH_S=$OUTLAST_STARTED_S OUTLAST_LAUNCH_CODE='' OUTLAST_STOP_REASON=''
  OUTLAST_BLAME=() OUTLAST_BLAME_WHY='' OUTLAST_SLOTS=() OUTLAST_DROPPED='' OUTLAST_MOVED='' OUTLAST_RUNG='' OUTLAST_SWAPPED=0 OUTLAST_SWAPS_NOW=0 OUTLAST_BECAUSE='' OUTLAST_LOST_S=0 OUTLAST_ENDED_S=''
  HOSTNAME=n1 OL_ENDING_EARLY=0 OL_ENDING_MADE='' OL_ENDING_DEATH=''
  ol_verdict_reset
  : >"$OUTLAST_LOG"
  : >"$OUTLAST_SAID"
  a_scheduler
  set -T
}

# A driver that answers what the test has put into $SCHED: state.ID, found (an id), end_time, down; a file
# `silent` in it means that the scheduler does not answer. What it is told is in $SCHED/told, a line each.
a_scheduler() {
  SCHED=$BATS_TEST_TMPDIR/scheduler
  mkdir -p "$SCHED"
  : >"$SCHED/told"
  ol_sched_submit() {
    printf 'submit %s\n' "${*:2}" >>"$SCHED/told"
    [[ ! -e $SCHED/silent ]] || return 2
    [[ ! -e $SCHED/refuses ]] || {
      cat "$SCHED/refuses" >&2
      return 1
    }
    cp "$1" "$SCHED/script"
    echo 8
  }
  ol_sched_state() { _of_scheduler "state.$1"; }
  ol_sched_find() { _of_scheduler found; }
  ol_sched_end_time() { _of_scheduler end_time || return 2; }
  ol_sched_cancel() { printf 'cancel %s\n' "$*" >>"$SCHED/told"; }
  ol_sched_excludes() { :; }
  ol_sched_exclude() { printf 'exclude %s\n' "$*" >>"$SCHED/told"; }
  ol_sched_known_nodes() {
    [[ ! -e $SCHED/silent ]] || return 2
    printf '%s\n' "$@" | grep -v unknown || true
  }
  ol_sched_down_nodes() { _of_scheduler down; }
  ol_sched_signal_launch() { printf 'signal %s\n' "$2" >>"$SCHED/told"; }
  ol_sched_kill_launch() { printf 'kill\n' >>"$SCHED/told"; }
  ol_sched_job_id() { echo 7; }
  ol_sched_restart() { echo 0; }
  ol_sched_nodes() { echo n1; }
  ol_sched_submit_dir() { printf '%s\n' "$OUTLAST_START_DIR"; }
  ol_sched_on_each() { "${@:3}"; }
}

_of_scheduler() {
  [[ ! -e $SCHED/silent ]] || return 2
  cat "$SCHED/$1" 2>/dev/null
}

told() { grep -qx -- "$1" "$SCHED/told"; }

# What lies in DIR, hidden things too, in one line.
entries() { find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | paste -sd' '; }

# The newest event of that name in this job's own ledger, or nothing.
event() { { grep "\"event\":\"$1\"" "$OUTLAST_STATE/events.jsonl" || true; } | tail -n 1; }

# Events of jobs before this one: past JOB EVENT FIELDS..., a second apart.
past() {
  PAST_S=$((${PAST_S:-1700000000} + 1))
  local job=$1 event=$2 fields
  shift 2
  fields=$(ol_ledger_json "$@")
  printf '{"t":%d,"run":"demo","job":"%s","restart":0,"attempt":1,"seq":%d,"event":"%s"%s}\n' \
    "$PAST_S" "$job" "$PAST_S" "$event" "$fields" >>"$OUTLAST_STATE/history.jsonl"
}

# What a trainer of Hugging Face leaves behind after a step: checkpoint STEP [DIR] [MAX_STEPS]
checkpoint() {
  local dir=${2:-$OUTLAST_CKPT_DIR}/checkpoint-$1
  mkdir -p "$dir"
  printf 'weights of step %d\n' "$1" >"$dir/model.safetensors"
  printf '{\n  "global_step": %d,\n  "max_steps": %d\n}\n' "$1" "${3:-0}" >"$dir/trainer_state.json"
}

# The same, copied to the run's folder with its manifest, by a job that owns the run.
durable() {
  owns_the_run
  checkpoint "$1"
  status_of ol_checkpoint_keep "$1" "$OUTLAST_CKPT_DIR/checkpoint-$1" 2>/dev/null
  return "$status"
}

owns_the_run() { printf 'job=7 restart=0 host=n1\n' >"$OUTLAST_RUN_DIR/lease/$OUTLAST_GENERATION"; }

# What a rendered script would say of its site and its job, for code that starts a command in the trainer's environment.
has_no_site() {
  ol_site_modules() { :; }
  ol_site_env() { :; }
  ol_job_env() { :; }
  ol_job_setup() { export LOADED=yes; }
  ol_environment_job() { :; }
}
