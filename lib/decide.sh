# shellcheck shell=bash
# lib/decide.sh - what follows from an ending
#
# Functions
#   ol_decide               OUTLAST_CLASS -> OUTLAST_THEN, through the guards; writes the `ended` event and
#                           acts: hold, successor, removal of one
#   ol_decide_trains NOW_S  a launch has made its first step, UTC seconds
#   ol_decide_leave WHY     this job has nothing to do here
#   ol_decide_hold WHY [NEWS]   the run needs a person, who is told under that name (else: held)
#   ol_decide_write_hold WHY TODO   no further job may start
#
# then: relaunch, submit, hold, stop (no further job, nothing is wrong), finish, leave
# Sets     OUTLAST_THEN OUTLAST_WHY OUTLAST_SWAPPED (how often nodes were swapped in this job)
#          OUTLAST_ASKED_FOR (what the class alone asks for) OUTLAST_SHARED_FULL (0 yes, 1 no, else unknown; storage only)
# Reads    OUTLAST_BLAME (hosts to blame for this ending), OUTLAST_BLAME_WHY (a word)
# Needs    log, bounded, masked, ledger, history, ladder, guard, remedy, record, successor, deadline, ending, nodes, checkpoint, courier, mail, run, lease
# Sourcing it defines the functions above and does nothing else.

# What it took since the last ending is lost: OUTLAST_LOST_S.
ol_decide_trains() { # NOW_S
  [[ -z $OUTLAST_ENDED_S ]] || (($1 < OUTLAST_ENDED_S)) || OUTLAST_LOST_S=$((OUTLAST_LOST_S + $1 - OUTLAST_ENDED_S))
  OUTLAST_ENDED_S=''
}

_ol_decide_by_class() {
  case $OUTLAST_CLASS in
    walltime | walltime_late | preempted) echo submit ;;
    requeued | superseded) echo leave ;;
    cancelled | ended_unknown) echo stop ;;
    stopped | early_exit | wrong_resume | drift | other_ranks) echo hold ;;
    done) echo finish ;;
    launch) _ol_decide_launch ;;
    storage) _ol_decide_storage ;;
    node | unhealthy | hang | crash) echo relaunch ;;
    systemic | bad_checkpoint) ol_remedy_then ;;
    internal) if ((OUTLAST_DURABLE_STEP > OUTLAST_DURABLE_AT_START)); then echo submit; else echo hold; fi ;;
    *) echo hold ;;
  esac
}

# Full: only a person can help. A stall passes, but not for this job when it could not even start.
_ol_decide_storage() {
  if ((OUTLAST_SHARED_FULL == 0)); then
    echo hold
  elif ((OUTLAST_ATTEMPT == 0)) || [[ -z ${OUTLAST_LAUNCH_PID:-} ]]; then
    echo submit
  else
    echo relaunch
  fi
}

# 126 and 127: the command is not there, no retry will bring it. Anything else deserves one.
_ol_decide_launch() {
  if [[ $OUTLAST_EVIDENCE =~ code\ (126|127|72)($|[^0-9]) ]] || ((OUTLAST_ATTEMPT > 1)); then
    echo hold
  else
    echo relaunch
  fi
}

# A node whose disk is full or hangs is out of use, unless it is the shared file system, or nobody can say.
_ol_decide_whose_disk() {
  OUTLAST_SHARED_FULL=''
  [[ $OUTLAST_CLASS == storage ]] || return 0
  OUTLAST_SHARED_FULL=0
  _ol_ending_shared_is_full || OUTLAST_SHARED_FULL=$?
  ((OUTLAST_SHARED_FULL == 1)) || OUTLAST_BLAME=()
}

# So many at once are no single one's fault (a glitch of the fabric makes a launcher name every child), but for those that
# the scheduler calls down.
_ol_decide_whose_trouble() {
  local down count=${#OUTLAST_BLAME[@]}
  ol_nodes_is_the_sites "$count" || return 0
  down=$(ol_sched_down_nodes "${OUTLAST_BLAME[@]}") || down=''
  OUTLAST_BLAME=()
  [[ -z $down ]] || mapfile -t OUTLAST_BLAME <<<"$down"
  ((${#OUTLAST_BLAME[@]} == count)) ||
    ol_log_warn "$count nodes are to blame at once: only those are left out that the scheduler calls down (${#OUTLAST_BLAME[@]})"
}

# Whoever is to blame trains no more in this job; a successor that waits already learns of it.
_ol_decide_blame() {
  local host blamed=()
  OUTLAST_SWAPS_NOW=0
  [[ ! $OUTLAST_RUNG =~ ^(move|blind)$ ]] || OUTLAST_SWAPS_NOW=1
  _ol_decide_whose_disk
  [[ $OUTLAST_CLASS =~ ^(node|unhealthy|hang|crash|storage)$ ]] || return 0
  if [[ $OUTLAST_CLASS == node && -z ${OUTLAST_BLAME[*]:-} ]]; then
    mapfile -t OUTLAST_BLAME < <(ol_ending_nodes)
    OUTLAST_BLAME_WHY=node_down
  fi
  _ol_decide_whose_trouble
  for host in "${OUTLAST_BLAME[@]}"; do
    ol_nodes_is_dropped "$host" || blamed+=("$host")
  done
  ((${#blamed[@]} > 0)) || return 0
  OUTLAST_SWAPS_NOW=1
  ol_nodes_drop "${OUTLAST_BLAME_WHY:-$OUTLAST_CLASS}" "${blamed[@]}"
  ol_successor_exclude
}

# A launch that makes no step adds to what the ending before it has cost, but not more than a start may take: it may have
# trained in words that we do not know.
_ol_decide_lost_time() {
  local now_s
  printf -v now_s '%(%s)T' -1
  ((${OUTLAST_LAUNCH_S:-0} + OUTLAST_STARTUP_S > now_s)) || now_s=$((${OUTLAST_LAUNCH_S:-0} + OUTLAST_STARTUP_S))
  ol_decide_trains "$now_s"
  printf -v OUTLAST_ENDED_S '%(%s)T' -1
}

# A relaunch has to be worth it: with enough nodes, and with time to start and to reach a checkpoint. One that puts another
# node into the place of a bad one is a swap, and counts as that alone. OUTLAST_BECAUSE: why not.
_ol_decide_is_worth_it() { # DELAY_S
  if [[ $OUTLAST_CLASS == node && -e $OUTLAST_STATE/term ]]; then
    OUTLAST_BECAUSE="the scheduler ends this job"
  elif ! ol_nodes_suffice; then
    OUTLAST_BECAUSE=$OUTLAST_WHY
  elif ((OUTLAST_SWAPS_NOW > 0 && OUTLAST_SWAPPED >= OUTLAST_SWAPS)); then
    OUTLAST_BECAUSE="this job has swapped nodes $OUTLAST_SWAPPED times (guard.swaps)"
  elif ((OUTLAST_SWAPS_NOW == 0 && OUTLAST_ATTEMPT - OUTLAST_SWAPPED >= OUTLAST_ATTEMPTS)); then
    OUTLAST_BECAUSE="this job has launched $OUTLAST_ATTEMPT times (guard.attempts)"
  elif ((OUTLAST_RECOVERY_S > 0 && OUTLAST_LOST_S >= OUTLAST_RECOVERY_S)); then
    OUTLAST_BECAUSE="this job has lost $OUTLAST_LOST_S s to launches (guard.recovery_s)"
  elif ol_deadline_is_near "$((OUTLAST_STARTUP_S + OUTLAST_CKPT_INTERVAL_S + $1))"; then
    OUTLAST_BECAUSE="no time is left for a launch and a checkpoint"
  else
    return 0
  fi
  return 1
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
  if [[ $OUTLAST_RUNG == software ]]; then
    OUTLAST_THEN=hold OUTLAST_WHY="$OUTLAST_CLASS: $OUTLAST_RUNG_WHY"
    return
  fi
  OUTLAST_DELAY_S=$(ol_guard_delay_s)
  [[ $OUTLAST_CLASS != storage || $OUTLAST_THEN != submit ]] || OUTLAST_DELAY_S=1800
  # A crash that follows on another is waited for; not one whose node is out of use.
  [[ $OUTLAST_THEN != relaunch || $OUTLAST_SWAPS_NOW == 0 ]] || OUTLAST_DELAY_S=0
  ! ol_remedy_is_wanted || OUTLAST_DELAY_S=0
  if [[ $OUTLAST_THEN == relaunch ]] && ! _ol_decide_is_worth_it "$OUTLAST_DELAY_S"; then
    OUTLAST_THEN=submit
    ol_log_info "not launched again here: $OUTLAST_BECAUSE"
  fi
  if [[ $OUTLAST_CLASS != preempted ]] && ! ol_guard_may_repeat "$OUTLAST_DURABLE_STEP"; then
    OUTLAST_THEN=hold
    return
  fi
  if [[ $OUTLAST_THEN == submit && $OUTLAST_CHAIN == 0 ]]; then
    OUTLAST_THEN=stop
    OUTLAST_WHY="chaining is off"
  elif [[ $OUTLAST_THEN == submit && -e $OUTLAST_STATE/hold ]]; then
    OUTLAST_THEN=stop
    OUTLAST_WHY="control/hold is set"
  fi
}

_ol_decide_note() {
  local because=${OUTLAST_WHY:-$OUTLAST_BECAUSE} judged=()
  [[ -z $OUTLAST_PATTERN ]] || judged=(pattern="$OUTLAST_PATTERN" scope="$OUTLAST_SCOPE" persistence="$OUTLAST_PERSISTENCE"
    action="$OUTLAST_ACTION" confidence:="$OUTLAST_CONFIDENCE" line:="$OUTLAST_VERDICT_LINE"
    text="$OUTLAST_VERDICT_TEXT" why="$OUTLAST_VERDICT_WHY" began_on="${OUTLAST_SUSPECTS[*]}")
  ((${#OUTLAST_BLAME[@]} == 0)) || judged+=(blame="${OUTLAST_BLAME[*]}" blame_why="$OUTLAST_BLAME_WHY")
  [[ -z $OUTLAST_RUNG ]] || judged+=(rung="$OUTLAST_RUNG" rung_why="$OUTLAST_RUNG_WHY")
  ol_ledger_add ended class="$OUTLAST_CLASS" evidence="$OUTLAST_EVIDENCE" code:="${OUTLAST_LAUNCH_CODE:-}" \
    step:="${OUTLAST_STEP:-}" durable_step:="$OUTLAST_DURABLE_STEP" ran_s:="${OUTLAST_RAN_S:-0}" \
    fingerprint="${OUTLAST_FINGERPRINT:-}" margin_s:="$OUTLAST_MARGIN_S" "${judged[@]}" ${because:+because="$because"} then="$1"
}

_ol_decide_submit() {
  local status=0
  ol_successor_submit "${OUTLAST_DELAY_S:-0}" || status=$?
  case $status in
    1) ol_decide_hold "$OUTLAST_WHY" refused ;;
    4) ol_decide_leave "$OUTLAST_WHY" ;;
    2 | 3)
      OUTLAST_THEN=stop
      ol_ledger_add warned text="no successor: $OUTLAST_WHY"
      ol_log_error "$OUTLAST_WHY"
      ol_mail_send no_successor "no successor" "$OUTLAST_WHY"$'\n'"To go on: $(ol_successor_command)"
      ;;
  esac
}

ol_decide_leave() {
  OUTLAST_THEN=leave OUTLAST_WHY=$1
  ol_log_info "leaving: $1"
  ol_ledger_add left why="$1"
}

# control/hold keeps further jobs from starting; the first line says why, the second how to go on. In control/ the
# group may write, links too: so the file is made elsewhere and moved there.
ol_decide_write_hold() { # WHY TODO
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'umask 027; printf "%s\n%s\n" "$2" "$3" >"$1/.hold" && mv -fT "$1/.hold" "$1/control/hold"' _ \
    "$OUTLAST_RUN_DIR" "$1" "$2"
}

ol_decide_hold() { # WHY [NEWS]
  local todo why news=${2:-held}
  ol_masked_text "${1//$'\n'/ }"
  why=$OUTLAST_MASKED
  todo=$(ol_successor_command)
  OUTLAST_THEN=hold OUTLAST_WHY=$why
  ol_log_error "held: $why; when it is mended: $todo"
  ol_ledger_add held why="$why" todo="$todo"
  [[ $OUTLAST_CLASS == stopped ]] || ol_decide_write_hold "$why" "$todo"
  [[ $OUTLAST_CLASS != early_exit ]] || news=early_exit
  ol_mail_send "$news" "held" "$why"$'\n'"To go on: $todo"
}

# So many nodes are out of use that the spares could not replace them. It is told once: this job launches no more.
_ol_decide_tell_spares() {
  local next
  [[ -n $OUTLAST_BECAUSE ]] && ol_nodes_are_spent || return 0
  case $OUTLAST_THEN in
    submit) next="Job $OUTLAST_NEXT_ID follows this one, with spares of its own." ;;
    hold | stop) next="No further job${OUTLAST_WHY:+: $OUTLAST_WHY}"$'\n'"To go on: $(ol_successor_command)" ;;
    *) return 0 ;;
  esac
  ol_mail_send no_spares "no spares are left" "Job $OUTLAST_JOB_ID does not launch again: $OUTLAST_BECAUSE."$'\n'"$next"
}

# A copy of the job that the scheduler has given up (its host was cut off) neither holds the run nor adds a job to it.
# KILL may be near after TERM, and then there is no time to look.
_ol_decide_is_lost() {
  [[ -n ${OUTLAST_GENERATION_MINE:-} && $OUTLAST_CLASS != superseded && ! -e $OUTLAST_STATE/term ]] && ol_lease_is_lost
}

# OUTLAST_CLASS -> OUTLAST_THEN, through the guards.
_ol_decide_think() {
  OUTLAST_WHY='' OUTLAST_BECAUSE='' OUTLAST_DELAY_S=0
  [[ $OUTLAST_CLASS != cancelled ]] || OUTLAST_BLAME=() # what a cancel breaks is nobody's fault
  _ol_decide_step
  ol_ladder_judge
  _ol_decide_blame
  OUTLAST_THEN=$(_ol_decide_by_class)
  OUTLAST_ASKED_FOR=$OUTLAST_THEN
  _ol_decide_guarded
  [[ $OUTLAST_THEN != relaunch ]] || OUTLAST_SWAPPED=$((OUTLAST_SWAPPED + OUTLAST_SWAPS_NOW))
}

_ol_decide_act() {
  if [[ $OUTLAST_THEN == relaunch || $OUTLAST_THEN == submit ]] && ol_remedy_is_wanted && ! ol_remedy_apply; then
    OUTLAST_THEN=hold
  fi
  case $OUTLAST_THEN in
    submit) _ol_decide_submit ;;
    hold)
      [[ $OUTLAST_SUCCESSOR != launch ]] || ol_successor_remove
      ol_decide_hold "${OUTLAST_WHY:-$OUTLAST_CLASS: $OUTLAST_EVIDENCE}"
      ;;
    finish) ol_successor_remove ;;
    stop)
      # What nobody knows is not a cancel: an insurance that waits asks again at its start.
      [[ $OUTLAST_CLASS == ended_unknown ]] || ol_successor_remove
      ol_log_info "no further job${OUTLAST_WHY:+ ($OUTLAST_WHY)}; to go on all the same: $(ol_successor_command)"
      [[ $OUTLAST_CLASS != ended_unknown ]] || ol_mail_send ended_unknown "ended, nobody knows why" "$OUTLAST_EVIDENCE"
      ;;
  esac
  _ol_decide_tell_spares
  ol_nodes_strike
}

ol_decide() {
  ! _ol_decide_is_lost || _ol_ending_is superseded "a newer lease than $OUTLAST_GENERATION; and before: $OUTLAST_CLASS, $OUTLAST_EVIDENCE"
  ol_log_info "ended: $OUTLAST_CLASS ($OUTLAST_EVIDENCE)"
  _ol_decide_lost_time
  ol_record_begin
  _ol_decide_think
  _ol_decide_note "$OUTLAST_THEN"
  [[ ! -e $OUTLAST_STATE/term ]] || ol_courier_hurry # KILL is near
  _ol_decide_act
  [[ ! -e $OUTLAST_STATE/term ]] || ol_courier_hurry # with the words that a person types to go on
  ol_record_keep
}
