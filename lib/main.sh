# shellcheck shell=bash
# lib/main.sh - the parts of a job's story, in the order in which main tells them
#
# Functions
#   ol_main_open       run folder, history, lease, helpers, guards, nodes. 0 go on; 1 OUTLAST_THEN says what instead
#   ol_main_insure     successor = "launch": the next job waits from now on, in case this one is lost
#   ol_main_attempt    one launch, from the choice of a checkpoint to the decision what follows
#
# Sets     OUTLAST_PARENT OUTLAST_DURABLE_AT_START OUTLAST_DURABLE_STEP OUTLAST_GENERATION_MINE OUTLAST_MARGIN_S OUTLAST_TOOL_PID
# Needs    log, bounded, ledger, history, run, lease, deadline, courier, guard, ladder, preflight, attempt, watch, ending, verdict, decide, successor, mail, py, report, hook
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
    _ol_ending_is walltime "our deadline, before a launch${1:+ ($1)}"
  else
    _ol_ending_is storage "$1"
  fi
  ol_decide
}

# A run that starts from another run's checkpoint (`from` in its job) has it made its own first durable one. What was
# started from nothing instead would look well for days, so without an answer the run is held.
_ol_main_branch() {
  local status=0 pid begun_s now_s answer='' step bytes how source
  [[ -n $OUTLAST_FROM && -z $OUTLAST_RESUME_STEP ]] || return 0
  ol_log_info "starting from $OUTLAST_FROM: its checkpoint is verified, at most $OUTLAST_PREPARE_LIMIT_S s"
  printf -v begun_s '%(%s)T' -1
  (
    ol_py_install >&2
    ol_py_ask "$OUTLAST_PREPARE_LIMIT_S" sidecar branch "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_JOB_ID" \
      "$OUTLAST_GENERATION" "$OUTLAST_FROM" "$OUTLAST_RUNS_DIR" "$OUTLAST_STORAGE"
  ) >"$OUTLAST_STATE/branch" &
  pid=$!
  _ol_attempt_await "$pid" "$((OUTLAST_PREPARE_LIMIT_S + 180))" || status=$?
  if ((status == 2)); then
    ol_main_interrupted "starting from $OUTLAST_FROM"
    return 1
  fi
  read -r answer <"$OUTLAST_STATE/branch"
  if [[ $answer != done\ * ]]; then
    answer=${answer#no }
    [[ -n $answer ]] || answer="no answer; why is in $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART.log, and a larger OUTLAST_PREPARE_LIMIT_S in $OUTLAST_RUN_DIR/job.sh gives it more time"
    _ol_ending_is bad_checkpoint "cannot start from $OUTLAST_FROM: $answer"
    ol_decide
    return 1
  fi
  read -r _ step bytes how source <<<"$answer"
  printf -v now_s '%(%s)T' -1
  ol_ledger_add branched step:="$step" from="$source" how="$how" seconds:="$((now_s - begun_s))"
  ol_ledger_add checkpoint_durable step:="$step" bytes:="$bytes" # no seconds: it was no copy of ours
  ol_log_info "checkpoint $step of $source is ours now ($how)"
  _ol_main_know
}

# The step that is durable now. Asked as the owner: what does not add up goes to quarantine.
_ol_main_know() {
  local status=0
  _ol_attempt_choose || status=$?
  case $status in
    0) ;;
    4)
      _ol_ending_is bad_checkpoint "$OUTLAST_WHY"
      ol_decide
      return 1
      ;;
    *)
      ol_main_interrupted "$OUTLAST_WHY"
      return 1
      ;;
  esac
  OUTLAST_DURABLE_AT_START=${OUTLAST_RESUME_STEP:-0}
  OUTLAST_DURABLE_STEP=$OUTLAST_DURABLE_AT_START
  # The sidecar need not copy what a node is given to resume from.
  printf '%d\n' "$OUTLAST_DURABLE_AT_START" >"$OUTLAST_STATE/durable_step"
}

# On shared storage the job before may have been lost between a checkpoint's last file and its manifest.
_ol_main_adopt() {
  [[ $OUTLAST_STORAGE == shared ]] || return 0
  ol_sidecar_drain "$OUTLAST_STARTUP_S" || ol_log_warn "not every complete checkpoint could be made durable"
  _ol_main_know
}

_ol_main_own() {
  local status=0
  ol_lease_take || status=$?
  case $status in
    0)
      OUTLAST_GENERATION_MINE=1
      ol_run_keep_script
      ol_run_keep_patterns
      ;;
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
  if ((status == 2)); then
    ol_main_interrupted "the run's control files cannot be read"
  elif [[ -n $OUTLAST_HOLD ]]; then
    ol_decide_hold "$OUTLAST_WHY"
  else
    ol_decide_leave "$OUTLAST_WHY"
  fi
  return 1
}

ol_main_open() {
  ol_verdict_reset
  _ol_main_find_run || return
  OUTLAST_PARENT=$(ol_history_parent)
  _ol_main_own || return
  _ol_main_know || return
  ol_deadline_learn
  ol_deadline_start
  ol_courier_start
  _ol_main_adopt || return
  _ol_main_may_start || return
  _ol_main_branch || return
  ol_ledger_add started host="${HOSTNAME:-?}" nodes:="${#OUTLAST_HOSTS[@]}" \
    durable_step:="$OUTLAST_DURABLE_AT_START" generation:="$((10#$OUTLAST_GENERATION))" version="$OUTLAST_VERSION"
  { ol_py_install >/dev/null && ol_mail_finish 40; } & # nobody waits for the tools, and for older messages
  OUTLAST_TOOL_PID=$!
  ol_run_note_sources &
  _ol_main_preflight || return
  ol_hook_start # after preflight: what it opens on the first node's GPUs is no fault of that node
  _ol_main_prepare
}

# Each node is asked before any of them is trusted with the run.
_ol_main_preflight() { # [again]
  local status=0
  "ol_preflight${1:+_$1}" || status=$?
  if ((status == 2)); then
    OUTLAST_CLASS=''
    ol_main_interrupted "preflight"
  elif ((status == 1)) && [[ $OUTLAST_PREFLIGHT_CLASS == held ]]; then
    ol_decide_hold "$OUTLAST_WHY"
  elif ((status == 1)); then
    OUTLAST_FINGERPRINT=''
    _ol_ending_is "$OUTLAST_PREFLIGHT_CLASS" "$OUTLAST_WHY"
    ol_decide
  fi
  return "$status"
}

# Where nobody is named, what the nodes say of themselves comes before any guess.
_ol_main_look_again() {
  local dropped=${OUTLAST_DROPPED:-}
  [[ -n $OUTLAST_RUNG ]] || return 0
  [[ $OUTLAST_RUNG == host ]] || _ol_main_preflight again || return
  ol_ladder_climb "$dropped"
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
  local status=0
  [[ $OUTLAST_CHAIN == 1 && $OUTLAST_SUCCESSOR == launch ]] || return 0
  ol_successor_submit 0 || status=$?
  ((status != 0)) || return 0
  ol_log_warn "no insurance: ${OUTLAST_WHY:-no answer}"
  ((status != 1)) ||
    ol_mail_send refused "the next job was refused" "Training goes on, and the next job is asked for again at this one's end. $OUTLAST_WHY"
}

_ol_main_tell() {
  ((${OUTLAST_DELAY_S:-0} == 0)) ||
    ol_mail_send rapid_crash "rapid crash" "$OUTLAST_EVIDENCE; the next attempt comes in $OUTLAST_DELAY_S s"
}

# The wait before a repeated try; people and the clock may end it.
_ol_main_wait() {
  local tick
  ((${OUTLAST_DELAY_S:-0} > 0)) || return 0
  ol_log_info "waiting $OUTLAST_DELAY_S s before the next attempt (rapid crash)"
  for ((tick = 0; tick < OUTLAST_DELAY_S; tick++)); do
    [[ ! -e $OUTLAST_STATE/term && ! -e $OUTLAST_STATE/stop && ! -e $OUTLAST_STATE/deadline ]] || return 2
    ol_bounded_nap 1
  done
}

ol_main_attempt() {
  local status=0 dead
  if [[ $OUTLAST_THEN == relaunch ]]; then
    # What the last attempt left complete becomes durable before a checkpoint is chosen.
    ol_sidecar_drain 300
    _ol_main_tell
    ol_report_start
    _ol_main_wait || {
      OUTLAST_CLASS=''
      ol_main_interrupted "waiting for the next attempt"
      return
    }
    _ol_main_look_again || return
  fi
  OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_FINGERPRINT=''
  OUTLAST_SIGNALLED=0
  ol_verdict_reset
  ol_attempt_begin || status=$?
  case $status in
    0)
      ol_watch
      ol_ending_attempt
      [[ -n $OUTLAST_THEN ]] || ol_decide
      ;;
    2 | 3) ol_main_interrupted "$OUTLAST_WHY" ;;
    4)
      _ol_ending_is bad_checkpoint "$OUTLAST_WHY"
      ol_decide
      ;;
    5)
      _ol_ending_is drift "$OUTLAST_WHY"
      ol_decide
      ;;
    6)
      _ol_ending_is other_ranks "$OUTLAST_WHY"
      ol_decide
      ;;
    7)
      _ol_ending_is unhealthy "$OUTLAST_WHY"
      ol_decide
      ;;
    *)
      OUTLAST_LAUNCH_CODE='' OUTLAST_RAN_S=0 OUTLAST_FINGERPRINT=launch
      _ol_ending_is launch "$OUTLAST_WHY"
      dead=$(ol_ending_nodes)
      if [[ -n $dead ]]; then
        OUTLAST_FINGERPRINT=node
        _ol_ending_is node "the scheduler calls ${dead//$'\n'/ } down: $OUTLAST_WHY"
      fi
      ol_decide
      ;;
  esac
}
