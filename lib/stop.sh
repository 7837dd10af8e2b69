# shellcheck shell=bash
# lib/stop.sh - end the ranks, gently first
#
# Functions
#   ol_stop_ask REASON     ask the training to stop; only the first reason counts
#   ol_stop_push           go on with a stop that was asked for: call it again and again (the watch does)
#   ol_stop_asked          print the reason, or nothing
#
# Reasons: deadline, stop, outside (somebody signalled the job), lost (the run is another job's),
# wrong_resume, peers (a rank died, the others wait for it for ever), node (one is dead, the same), hang.
# A trainer that can save on request gets the stop file, then TERM; one that cannot gets TERM at once, as
# soon as no checkpoint is half-written. Who is still there after STOP_WAIT_S is killed; `lost` kills at once.
#
# Files    OUTLAST_STATE/asked   `REASON`, written before anybody is told: an exit after it was asked for
# Reads    OUTLAST_STOP_WAIT_S OUTLAST_SAVES_ON_STOP OUTLAST_SAVE_SIGNAL OUTLAST_LAUNCH_PID OUTLAST_LOCAL OUTLAST_TOKEN
# Needs    log, ledger, checkpoint
# Sourcing it defines the functions above and does nothing else.

ol_stop_asked() {
  local reason=${OUTLAST_STOP_REASON:-} # in memory, too: a full disk keeps no word
  [[ -n $reason || ! -e $OUTLAST_STATE/asked ]] || read -r reason <"$OUTLAST_STATE/asked"
  printf '%s\n' "$reason"
}

ol_stop_ask() {
  local reason=$1
  [[ ! -e $OUTLAST_STATE/asked ]] || return 0
  printf '%s\n' "$reason" >"$OUTLAST_STATE/asked"
  OUTLAST_STOP_REASON=$reason OUTLAST_STOP_STAGE=0
  printf -v OUTLAST_STOP_S '%(%s)T' -1
  OUTLAST_STOP_ASKED_S=$OUTLAST_STOP_S OUTLAST_STOP_CKPT=''
  [[ ! -s $OUTLAST_STATE/local_step ]] || read -r OUTLAST_STOP_CKPT _ <"$OUTLAST_STATE/local_step"
  ol_ledger_add signal name=stop from="$reason"
  ol_log_info "asking the training to stop: $reason"
  : >"$OUTLAST_LOCAL/stop"
  if [[ -n $OUTLAST_SAVE_SIGNAL && $OUTLAST_SAVES_ON_STOP == 0 ]]; then
    ol_sched_signal_launch "$OUTLAST_LAUNCH_PID" save
  fi
}

# A person who stops a run does not want to lose half an hour of it: a trainer that cannot save on request
# goes on to its next checkpoint, if one is expected in time. (`outlast cancel` does not wait.)
_ol_stop_waits_for_checkpoint() { # NOW_S
  local step=''
  [[ $OUTLAST_STOP_REASON == stop && $OUTLAST_SAVES_ON_STOP == 0 && -z $OUTLAST_SAVE_SIGNAL ]] || return 1
  [[ ! -e $OUTLAST_STATE/deadline && ! -e $OUTLAST_STATE/term ]] || return 1
  (($1 - OUTLAST_STOP_ASKED_S < OUTLAST_CKPT_INTERVAL_S * 3 / 2)) || return 1
  [[ ! -s $OUTLAST_STATE/local_step ]] || read -r step _ <"$OUTLAST_STATE/local_step"
  [[ $step == "$OUTLAST_STOP_CKPT" ]]
}

# When to go from asking to TERM: seconds after the request.
_ol_stop_term_after() {
  case $OUTLAST_STOP_REASON in
    wrong_resume | peers | node | hang) echo 0 ;; # nothing that is worth saving
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

# A copy of this job that was requeued has the same job and step numbers: a signal through the launcher, even
# the launcher's own tidying up, would reach its ranks. So only what runs on this host is killed, by its
# token; a launcher's child goes first, since it tidies up when its parent dies.
_ol_stop_abandon() {
  local environ pid
  pkill -KILL -P "$OUTLAST_LAUNCH_PID"
  kill -s KILL "$OUTLAST_LAUNCH_PID" 2>/dev/null
  for environ in /proc/[0-9]*/environ; do
    pid=${environ//[!0-9]/}
    [[ -O $environ && $pid != "$$" ]] || continue
    ! grep -qzFx "OUTLAST_TOKEN=$OUTLAST_TOKEN" "$environ" 2>/dev/null || kill -s KILL "$pid" 2>/dev/null
  done
}

ol_stop_push() {
  local now_s waited_s term_s limit_s=$OUTLAST_STOP_WAIT_S
  [[ -n ${OUTLAST_STOP_REASON:-} ]] || return 0
  if [[ $OUTLAST_STOP_REASON == lost ]]; then
    ((OUTLAST_STOP_STAGE > 0)) || _ol_stop_abandon
    OUTLAST_STOP_STAGE=3
    return
  fi
  [[ ! $OUTLAST_STOP_REASON =~ ^(peers|node|hang)$ ]] || limit_s=$((limit_s < 10 ? limit_s : 10))
  printf -v now_s '%(%s)T' -1
  if ((OUTLAST_STOP_STAGE == 0)) && _ol_stop_waits_for_checkpoint "$now_s"; then
    OUTLAST_STOP_S=$now_s
    return
  fi
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
