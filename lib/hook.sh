# shellcheck shell=bash
# lib/hook.sh - the user's command on every k-th durable checkpoint, and the scores that hold a run (docs/on-durable.md)
#
# It runs beside the training on the first node, one at a time, at low priority and within a limit. Training never waits
# for it and never fails by it. One that is cut off runs in the next job, on the newest checkpoint then.
#
# Functions
#   ol_hook_start        the loop, in a process of its own; nothing where there is no command
#   ol_hook_finish SEC   training is over: the command has its turn on the last checkpoint, within SEC seconds
#   ol_hook_stop         end the loop and what runs
#   ol_hook_reading      print the step that the command is reading, if it runs
#   ol_hook_judge        print what is wrong with a score that was written since the last resume, or nothing
#
# Files    OUTLAST_STATE/hook      `STEP PID` of what runs
#          RUN/scores/STEP         what the command has written there: a number first
# Reads    OUTLAST_ON_DURABLE OUTLAST_ON_DURABLE_EVERY OUTLAST_ON_DURABLE_LIMIT_S OUTLAST_SCORE_MIN OUTLAST_SCORE_MAX
#          OUTLAST_RUN OUTLAST_RUN_DIR OUTLAST_STATE OUTLAST_LOCAL OUTLAST_PROJECT OUTLAST_CKPT_PREFIX
# Needs    log, bounded, ledger, history, checkpoint, attempt, decide, mail, successor
# Sourcing it defines the functions above and does nothing else.

ol_hook_reading() {
  local step _
  { read -r step _ <"$OUTLAST_STATE/hook"; } 2>/dev/null || return 0
  printf '%d\n' "$step"
}

# Print the path of the checkpoint of a step; a file that was copied lies in a folder of its name.
_ol_hook_find() { # CHECKPOINTS PREFIX STEP
  local step name
  cd "$1" || return
  while read -r step name; do
    ((step == $3)) || continue
    [[ ! -f $name/$name ]] || name=$name/$name
    printf '%s\n' "$PWD/$name"
    return 0
  done < <(_ol_checkpoint_marked "$2")
  return 1
}

# In the trainer's environment, but for what belongs to a rank.
_ol_hook_command() { # STEP CHECKPOINT LIMIT
  local word words=() score=$OUTLAST_RUN_DIR/scores/$1
  for word in "${OUTLAST_ON_DURABLE[@]}"; do
    word=${word//'{checkpoint}'/"$2"}
    word=${word//'{step}'/"$1"}
    word=${word//'{score}'/"$score"}
    words+=("${word//'{run}'/"$OUTLAST_RUN"}")
  done
  trap - TERM USR1 EXIT
  [[ -z ${OUTLAST_OUT_FD:-} ]] || exec {OUTLAST_OUT_FD}>&-
  ol_bounded_close
  _ol_attempt_environment ''
  export OUTLAST_CHECKPOINT=$2 OUTLAST_STEP=$1 OUTLAST_SCORE_FILE=$score
  cd "$OUTLAST_PROJECT" && mkdir -p "${score%/*}" && ol_job_setup || exit 72
  exec nice -n 19 timeout -k 10 "$3" "${words[@]}"
}

_ol_hook_run() { # STEP LIMIT
  local step=$1 path begun_s now_s status=0 score=''
  path=$(_ol_checkpoint_child ol_bounded_print 60 _ol_hook_find "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_CKPT_PREFIX" "$step") || return 0
  printf -v begun_s '%(%s)T' -1
  (_ol_hook_command "$step" "$path" "$2") >"$OUTLAST_LOCAL/on_durable.$step.log" 2>&1 </dev/null &
  printf '%d %d\n' "$step" "$!" >"$OUTLAST_STATE/hook"
  wait "$!" || status=$?
  rm -f "$OUTLAST_STATE/hook"
  # Cut off, by us or by a TERM to all of the job: a later one does it again.
  [[ ! -e $OUTLAST_STATE/hook_stop && ($status == 0 || ! -e $OUTLAST_STATE/term) ]] || return 0
  printf -v now_s '%(%s)T' -1
  # shellcheck disable=SC2016 # expanded by the child
  score=$(ol_shared_print bash -c '[[ ! -s $1 ]] || head -c 40 "$1" | head -n 1' _ "$OUTLAST_RUN_DIR/scores/$step")
  ol_checkpoint_attempt
  ol_ledger_add on_durable step:="$step" code:="$status" seconds:="$((now_s - begun_s))" score="$score"
  ((status == 0)) || ol_log_warn "on_durable, checkpoint $step: status $status, see on_durable.$step.log"
  _ol_hook_hold
}

# A bad score lets the current job go on, and no further one start.
_ol_hook_hold() {
  local why todo
  [[ ! -e $OUTLAST_STATE/hook_last && ! -e $OUTLAST_STATE/hook_held ]] || return 0 # the run is over, or held
  why=$(ol_hook_judge)
  [[ -n $why ]] || return 0
  : >"$OUTLAST_STATE/hook_held"
  printf '%(%s)T\n' -1 >"$OUTLAST_STATE/hold"
  todo=$(ol_successor_command)
  ol_log_error "no further job: $why; to go on all the same: $todo"
  ol_ledger_add warned text="no further job: $why"
  ol_decide_write_hold "$why" "$todo" || ol_log_warn "cannot write control/hold; the next job looks at the scores again"
  ol_mail_send held "no further job" "$why"$'\n'"To go on all the same: $todo"
}

# Print `NAME SCORE` of the scores that are newer than a time.
_ol_hook_scores() { # RUN SINCE
  [[ -d $1/scores ]] || return 0
  find "$1/scores" -type f -name '[0-9]*' -newermt "@$2" -printf '%f\n' | sort -n | while read -r name; do
    printf '%s %s\n' "${name//[!0-9]/}" "$(head -c 40 "$1/scores/$name" | head -n 1)"
  done
}

ol_hook_judge() {
  local since_s
  [[ -n $OUTLAST_SCORE_MIN$OUTLAST_SCORE_MAX ]] || return 0
  since_s=$(ol_history_resumed_s)
  ol_shared_print bash -c "$(declare -f _ol_hook_scores)"'; _ol_hook_scores "$@"' _ "$OUTLAST_RUN_DIR" "$since_s" |
    awk -v min="$OUTLAST_SCORE_MIN" -v max="$OUTLAST_SCORE_MAX" '
      $2 !~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/ { next }
      min != "" && $2 + 0 < min + 0 { why = "score " $2 " of step " $1 " is below " min " (checkpoint.score_min)" }
      max != "" && $2 + 0 > max + 0 { why = "score " $2 " of step " $1 " is above " max " (checkpoint.score_max)" }
      END { if (why != "") print why }'
}

_ol_hook_loop() { # MAIN_PID
  local step seen=0 count tick=0 looks=0
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE && ! -e $OUTLAST_STATE/hook_last && ! -e $OUTLAST_STATE/lost ]]; do
    step=0
    { read -r step <"$OUTLAST_STATE/durable_step"; } 2>/dev/null
    # Counted before its event is there it would be one too few, and passed over. A minute is enough for that.
    if ((step > seen)) && { ol_history_knows_durable "$step" || ((++looks > 30)); }; then
      seen=$step looks=0
      count=$(ol_history_since_hook)
      ((count < OUTLAST_ON_DURABLE_EVERY)) || _ol_hook_run "$step" "$OUTLAST_ON_DURABLE_LIMIT_S"
    fi
    # A score may come later, from a job that the command has submitted.
    tick=$((tick + 1))
    ((tick % 30 != 0)) || _ol_hook_hold
    ol_bounded_nap 2
  done
}

ol_hook_start() {
  ((${#OUTLAST_ON_DURABLE[@]} > 0)) || return 0
  _ol_hook_loop "$$" &
  OL_HOOK_PID=$!
}

# What runs by now is waited for, then the last one has its turn if the command has not seen it.
ol_hook_finish() {
  local tick count left_s step=0
  [[ -n ${OL_HOOK_PID:-} && ! -e $OUTLAST_STATE/term ]] || return 0
  : >"$OUTLAST_STATE/hook_last"
  for ((tick = 0; tick < $1; tick++)); do
    kill -0 "$OL_HOOK_PID" 2>/dev/null || break
    ol_bounded_nap 1
  done
  left_s=$(($1 - tick < OUTLAST_ON_DURABLE_LIMIT_S ? $1 - tick : OUTLAST_ON_DURABLE_LIMIT_S))
  count=$(ol_history_since_hook)
  { read -r step <"$OUTLAST_STATE/durable_step"; } 2>/dev/null
  ((count == 0 || step == 0 || left_s <= 0)) || _ol_hook_run "$step" "$left_s"
}

ol_hook_stop() {
  local pid='' _
  [[ -n ${OL_HOOK_PID:-} ]] || return 0
  : >"$OUTLAST_STATE/hook_last"
  : >"$OUTLAST_STATE/hook_stop"
  { read -r _ pid <"$OUTLAST_STATE/hook"; } 2>/dev/null
  # `timeout` leads a group of its own and hands TERM on, but kills nobody who heeds none.
  [[ -z $pid ]] || kill -s TERM "$pid" 2>/dev/null
  [[ -z $pid ]] || {
    ol_bounded_nap 1
    kill -s KILL -- "-$pid" "$pid" 2>/dev/null
  }
  kill -s KILL "$OL_HOOK_PID" 2>/dev/null
  return 0
}
