# shellcheck shell=bash
# lib/watch.sh - while the ranks run: one look a second, at node-local files only
#
# Functions
#   ol_watch                 until the launcher has ended; sets OUTLAST_LAUNCH_CODE
#   ol_watch_signal NAME     trap handler: notes the signal. What follows is decided by the loop
#   ol_watch_first_death     print the shim's line of the rank that died first, by time, or nothing
#
# Sets     OUTLAST_LAUNCH_CODE OUTLAST_RAN_S
# Needs    log, bounded, run, ledger, history, stop, pulse, progress, deadline, ending, decide, courier, mail, hang
# Sourcing it defines the functions above and does nothing else.

ol_watch_signal() {
  case $1 in
    TERM) printf '%(%s)T\n' -1 >"$OUTLAST_STATE/term" ;;
    # A hint that the end is near (--signal). The timer asks the scheduler again.
    USR1) : >"$OUTLAST_STATE/ask" ;;
  esac
}

ol_watch_first_death() {
  [[ -e $OUTLAST_SAID ]] || return 0
  grep -aoE 'outlast: rank [0-9]+ on [A-Za-z0-9._-]+ ended with (code|signal) [A-Z0-9]+ at [0-9]+' "$OUTLAST_SAID" |
    sort -s -n -k 11 | head -n 1
}

_ol_watch_said() { [[ -s $OUTLAST_SAID ]] && grep -qaE -- "$1" "$OUTLAST_SAID"; }

# TERM for the job, or for its ranks, from somebody else: the scheduler knows why.
_ol_watch_term() {
  if [[ ! -e $OUTLAST_STATE/term ]]; then
    # After our own request somebody else's means the same.
    [[ ! -e $OUTLAST_STATE/asked ]] && _ol_watch_said 'outlast: rank 0 got TERM from outside' || return 0
  fi
  if [[ -z $OUTLAST_CLASS ]]; then
    ol_ledger_add signal name=TERM from=outside
    ol_ending_signalled
    ol_stop_ask outside
  fi
  # The script itself was told: KILL may be five seconds away, so what must follow is done and written now.
  [[ -e $OUTLAST_STATE/term && -z $OUTLAST_THEN ]] || return 0
  ol_decide
  ol_courier_hurry
}

_ol_watch_wishes() {
  if [[ -e $OUTLAST_STATE/lost ]]; then
    ol_stop_ask lost
  elif [[ -e $OUTLAST_STATE/dead ]]; then
    ol_stop_ask node
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
  printf -v now_s '%(%s)T' -1
  if _ol_watch_said 'outlast: rank [0-9]+ on .* ended with'; then
    line=$(ol_watch_first_death)
    died_s=${line##* }
  elif _ol_watch_said 'srun: error: .*: tasks? .*: '; then
    # The shim itself was killed; the launcher gives no time.
    OUTLAST_PEER_S=${OUTLAST_PEER_S:-$now_s}
    died_s=$OUTLAST_PEER_S
  else
    return 0
  fi
  ((now_s - ${died_s:-now_s} < 10)) || ol_stop_ask peers
}

# The first step after a resume must lie beyond the promised one: a silent fresh start is the worst restart.
_ol_watch_resume() {
  local now_s
  [[ -n $OUTLAST_FIRST_STEP && $OUTLAST_FIRST_SEEN == 0 ]] || return 0
  OUTLAST_FIRST_SEEN=1
  ol_ledger_add first_step step:="$OUTLAST_FIRST_STEP"
  printf -v now_s '%(%s)T' -1
  ol_decide_trains "$now_s"
  [[ -n $OUTLAST_RESUME_STEP ]] || return 0
  ((OUTLAST_FIRST_STEP < OUTLAST_RESUME_STEP)) || return 0
  ol_log_error "the trainer was told to resume at step $OUTLAST_RESUME_STEP and began at $OUTLAST_FIRST_STEP"
  ol_stop_ask wrong_resume
}

_ol_watch_progress() { # [last]
  ol_progress_look "$OUTLAST_LOG" "$@"
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

# When the ranks fill the node's disk our own files must still find room.
_ol_watch_disk() {
  local left_kib
  ((OUTLAST_WATCH_TICK % 10 == 9)) && [[ -e $OUTLAST_LOCAL/ballast ]] || return 0
  left_kib=$(df --output=avail -k "$OUTLAST_LOCAL" 2>/dev/null | tail -n 1)
  ((${left_kib:-4096} < 4096)) || return 0
  ol_run_drop_ballast
  ol_log_warn "the node's disk is full: $OUTLAST_LOCAL_BASE on ${HOSTNAME:-this node}"
  ol_ledger_add warned text="the node's disk is full: $OUTLAST_LOCAL_BASE on ${HOSTNAME:-?}"
}

# Steps are made, and for hours none has become safe: somebody should look at the storage before they are lost. Once a stall.
_ol_watch_durable() {
  local since_s now_s
  ((OUTLAST_NOT_DURABLE_S > 0 && OUTLAST_WATCH_TICK % 60 == 30)) && [[ -n $OUTLAST_STEP ]] || return 0
  since_s=$(stat -c %Y "$OUTLAST_STATE/durable_step" 2>/dev/null) || return 0
  ((since_s > OUTLAST_LAUNCH_S)) || since_s=$OUTLAST_LAUNCH_S
  printf -v now_s '%(%s)T' -1
  ((now_s - since_s > OUTLAST_NOT_DURABLE_S && since_s != OUTLAST_LATE_S)) || return 0
  OUTLAST_LATE_S=$since_s
  ol_log_warn "no checkpoint has become durable for $((now_s - since_s)) s"
  ol_ledger_add warned text="no checkpoint has become durable for $((now_s - since_s)) s"
  ol_mail_send not_durable "no checkpoint is safe" "Training goes on (step $OUTLAST_STEP), but no checkpoint has become durable for $(((now_s - since_s) / 60)) minutes.
Does the trainer save, is there room in $OUTLAST_RUN_DIR/checkpoints, and what does $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART.log say?"
  ol_mail_start
}

# What got lost of our own processes (out of memory, a bug of ours) is started again.
_ol_watch_helpers() {
  ((OUTLAST_WATCH_TICK % 60 == 59)) || return 0
  ol_courier_start
  ol_deadline_start
}

# A copy that has just become durable tells how long the last one will take.
_ol_watch_margin() {
  local step=''
  read -r step 2>/dev/null <"$OUTLAST_STATE/durable_step"
  [[ -n $step && $step != "$OUTLAST_MARGIN_STEP" ]] || return 0
  if [[ -n $OUTLAST_MARGIN_STEP ]]; then
    ol_history_knows_durable "$step" || return 0
    ol_deadline_learn
  fi
  OUTLAST_MARGIN_STEP=$step
}

_ol_watch_round() {
  _ol_watch_progress
  _ol_watch_term
  _ol_watch_wishes
  _ol_watch_deaths
  ol_hang_look
  _ol_watch_last_useful
  _ol_watch_margin
  ol_stop_push
  _ol_watch_disk
  _ol_watch_durable
  _ol_watch_helpers
  ol_pulse_look "$OUTLAST_WATCH_TICK"
  OUTLAST_WATCH_TICK=$((OUTLAST_WATCH_TICK + 1))
}

# The launcher's end and a TERM are seen within a fifth of a second, the rest once a second.
ol_watch() {
  local now_s look=0
  OUTLAST_WATCH_TICK=0 OUTLAST_FIRST_SEEN=0 OUTLAST_STOP_REASON='' OUTLAST_LAST_CKPT='' OUTLAST_PEER_S='' OUTLAST_LATE_S=0 OUTLAST_MARGIN_STEP=''
  ol_hang_begin
  while kill -0 "$OUTLAST_LAUNCH_PID" 2>/dev/null; do
    if ((look % 5 == 0)) || [[ -e $OUTLAST_STATE/term && -z $OUTLAST_THEN ]]; then
      _ol_watch_round
    fi
    look=$((look + 1))
    ol_bounded_nap 0.2
  done
  wait "$OUTLAST_LAUNCH_PID"
  OUTLAST_LAUNCH_CODE=$?
  printf -v now_s '%(%s)T' -1
  OUTLAST_RAN_S=$((now_s - OUTLAST_LAUNCH_S))
  # The drain begins while we still think: nobody writes any more.
  ol_run_drop_ballast
  printf 'ended %d %d\n' "$now_s" "$OUTLAST_LAUNCH_CODE" >"$OUTLAST_STATE/ranks"
  ol_sidecar_hurry
  ol_hang_end
  _ol_watch_progress last
  _ol_watch_term
}
