# shellcheck shell=bash
# lib/settle.sh - the job's last minutes: drain, finish, report, let go
#
# Functions
#   ol_settle               once, after the decision. Sets OUTLAST_EXIT, the script's exit status
#   ol_settle_unexpected    EXIT trap: an exit without a decision is the class `internal`, and still decides
#
# Needs    log, bounded, ledger, courier, decide, deadline, ending, checkpoint, retention, lease, mail, nodes, py, report, hook
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

# The run is over when the last checkpoint is durable; otherwise a next job has to do the rest. The last one
# counts even if it cannot be told to be whole (the trainer crashed behind it).
_ol_settle_finish() {
  local newest durable=$OUTLAST_DURABLE_AT_START
  newest=$(ol_checkpoint_newest | tail -n 1)
  newest=${newest%% *}
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  if ((${newest:-0} > durable)); then
    ol_log_warn "training is over, but its last checkpoint ${newest} is not durable: a next job has to finish"
    OUTLAST_THEN=stop
    [[ $OUTLAST_CHAIN == 0 ]] || {
      OUTLAST_THEN=submit
      _ol_decide_submit
    }
    return
  fi
  ol_shared touch "$OUTLAST_RUN_DIR/finished"
  ol_ledger_add finished step:="${OUTLAST_STEP:-$durable}"
  ol_log_info "finished"
  ol_hook_finish "$(_ol_settle_left)"
  ol_mail_send finished "finished" "The run is finished; its last checkpoint is $OUTLAST_RUN_DIR/checkpoints/$OUTLAST_CKPT_PREFIX$durable"
  ol_retention_empty # no job comes any more that would do it later
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

# The report, and the table of jobs so far at the end of the job's log; first the ledger must be there.
_ol_settle_report() {
  local left_s
  left_s=$(_ol_settle_left)
  if ol_courier_carry "$left_s"; then
    if [[ ! -e $OUTLAST_STATE/term ]]; then
      ol_report_finish 60
      [[ -e $OUTLAST_STATE/mail_fails ]] || ol_mail_finish 30
      ol_py 60 summary "$OUTLAST_RUN_DIR"
    fi
    ol_courier_carry "$left_s"
  else
    ol_log_warn "the shared file system did not take the last of the log"
    [[ -e $OUTLAST_STATE/term ]] || ol_mail_rest
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
    ol_hook_stop
    _ol_settle_cancelled
    _ol_settle_report
    _ol_settle_cancelled
  else
    _ol_settle_alone
  fi
  [[ -z ${OUTLAST_GENERATION_MINE:-} ]] || ol_lease_release
  [[ $OUTLAST_THEN != hold || $OUTLAST_CLASS == stopped ]] || OUTLAST_EXIT=1
  _ol_settle_end
}

# A job that leaves before it had a courier: what it has to say is short.
_ol_settle_alone() {
  local -A OL_COURIER_SENT=()
  ol_ledger_flush && ol_courier_log && ol_mail_carry
}

# The scheduler's output file is where people look first: it ends with how the job ended.
_ol_settle_out() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_bounded 5 bash -c 'grep -a " outlast: " "$1" | tail -n 8 >&"$2"' _ "$OUTLAST_STATE/job.log" "$OUTLAST_OUT_FD"
}

# The same folder on the other nodes. After TERM nothing can be started there any more, a dead one would be
# waited for, and those of a superseded job are its successor's.
_ol_settle_nodes() {
  local others
  [[ $OUTLAST_ATTEMPT != 0 && ! $OUTLAST_CLASS =~ ^(node|superseded)$ && ! -e $OUTLAST_STATE/term ]] || return 0
  others=$(ol_nodes_others)
  [[ -n $others ]] || return 0
  ol_sched_on_each 30 "$others" rm -rf "$OUTLAST_LOCAL" || ol_log_warn "$OUTLAST_LOCAL stays on some nodes"
}

_ol_settle_end() {
  _ol_settle_out
  : >"$OUTLAST_STATE/settled"
  ol_courier_stop
  [[ -z ${OUTLAST_TIMER_PID:-} ]] || kill -s KILL "$OUTLAST_TIMER_PID" 2>/dev/null
  _ol_settle_nodes
  cd / && _ol_settle_clean
}

# A child of a helper that was killed may still write a file there, and then a folder is not empty when its turn comes.
_ol_settle_clean() {
  local try
  for try in 1 2 3 4 5; do
    ((try == 1)) || sleep 0.5 # not ol_bounded_nap: its pipe lay there
    ! rm -rf "$OUTLAST_LOCAL" "$OUTLAST_STATE" 2>/dev/null || return 0
  done
  ol_log_warn "$OUTLAST_LOCAL stays on ${HOSTNAME:-this node}"
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
