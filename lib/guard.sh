# shellcheck shell=bash
# lib/guard.sh - when a run must not simply go on
#
# Functions; each returns 0 when it is fine to go on and 1 with OUTLAST_WHY set when not
#   ol_guard_may_start      before anything else: finished? stopped? held? parent cancelled? a bad score? stuck? budget?
#   ol_guard_may_repeat     before a relaunch or a successor after this failure: G1, G2, G4
#   ol_guard_delay_s        print how long to wait before the next try (G3), 0 for none
# The last two count the ending at hand, which is not in the ledger yet.
#
# G1 jobs in a row without a durable step forward; G2 the same failure at the same step; G3 rapid
# crashes wait, doubling; G4 budgets. Each is cleared by `outlast resume RUN`.
# Sets     OUTLAST_WHY, OUTLAST_HOLD (1: the reason is one to hold the run for, not only to leave)
# Reads    OUTLAST_RUNG OUTLAST_STUCK_JOBS OUTLAST_SAME_FAILURE OUTLAST_RAPID_S OUTLAST_RAPID_WAIT_S OUTLAST_MAX_JOBS
#          OUTLAST_MAX_NODE_HOURS OUTLAST_END_DATE OUTLAST_PARENT OUTLAST_RUN_DIR
# Needs    log, bounded, history, run, hook
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

# A parent that could not decide any more (KILL) wrote nothing, and a scheduler forgets: so both are asked. On
# its way out a job has no final state yet.
_ol_guard_parent() {
  local state end tick
  [[ -n ${OUTLAST_PARENT:-} ]] || return 0
  end=$(ol_history_end "$OUTLAST_PARENT")
  for ((tick = 0; tick < 30; tick++)); do
    state=$(ol_sched_state "$OUTLAST_PARENT") || state=''
    [[ $state == state=ending* && $end != cancelled ]] || break
    ol_run_pause 2 || return 0
  done
  [[ $end == cancelled || $state == *verdict=cancelled* ]] || return 0
  OUTLAST_WHY="somebody cancelled job $OUTLAST_PARENT, whose successor this is"
  OUTLAST_HOLD=1
  return 1
}

_ol_guard_scores() {
  OUTLAST_WHY=$(ol_hook_judge)
  [[ -n $OUTLAST_WHY ]] || return 0
  OUTLAST_HOLD=1
  return 1
}

_ol_guard_budget() {
  local used now_s end_s
  # The last job may still launch again.
  if ((OUTLAST_MAX_JOBS > 0)) && [[ $OUTLAST_THEN != relaunch ]]; then
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
  _ol_guard_parent && _ol_guard_scores && _ol_guard_budget && _ol_guard_stuck "$OUTLAST_DURABLE_STEP"
}

ol_guard_may_repeat() {
  local count durable=$1
  OUTLAST_WHY='' OUTLAST_HOLD=''
  # Not of one that has just been laid to a host's charge: without that host it may be over.
  if [[ -n ${OUTLAST_FINGERPRINT:-} && ${OUTLAST_RUNG:-} != host ]]; then
    count=$(ol_history_same "$OUTLAST_FINGERPRINT" "$OUTLAST_STEP")
    count=$((count + 1)) # and this one
    if ((count >= OUTLAST_SAME_FAILURE)); then
      OUTLAST_WHY="$count times the same failure ($OUTLAST_FINGERPRINT) ${OUTLAST_STEP:+at step }${OUTLAST_STEP:-before the first step}"
      return 1
    fi
  fi
  _ol_guard_stuck "$durable" && _ol_guard_budget
}

ol_guard_delay_s() {
  local count delay_s
  if [[ -z ${OUTLAST_FINGERPRINT:-} ]] || ((${OUTLAST_RAN_S:-0} >= OUTLAST_RAPID_S)); then
    echo 0
    return
  fi
  count=$(ol_history_rapid "$OUTLAST_RAPID_S")
  delay_s=$((OUTLAST_RAPID_WAIT_S << (count < 7 ? count : 7)))
  printf '%d\n' "$((delay_s < 3600 ? delay_s : 3600))"
}
