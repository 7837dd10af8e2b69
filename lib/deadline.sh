# shellcheck shell=bash
# lib/deadline.sh - when training must stop, kept by a process of its own
#
# A signal of the scheduler comes early, late or not at all, so a clock decides. The timer asks the
# scheduler again and again, because a time limit can be changed while the job runs, and keeps its answer
# in node-local files: it never touches the shared file system.
#
# Functions
#   ol_deadline_start       start the timer, unless it is there
#   ol_deadline_left        print the seconds until training must stop, never less than 0
#   ol_deadline_job_left    print the seconds until the allocation ends, never less than 0
#   ol_deadline_is_near S   are fewer than S seconds of training left?
#   ol_deadline_learn       stop earlier, if stops and copies have taken longer than there is time for (OUTLAST_MARGIN_S)
#
# Files    OUTLAST_STATE/end_time   when the allocation ends, UTC seconds
#          OUTLAST_STATE/margin     what has been learned: seconds from the end of training to that of the allocation
#          OUTLAST_STATE/deadline   the time is up: when, and why; written before anybody is told
# Sets     OUTLAST_MARGIN_S (ol_deadline_learn)
# Reads    OUTLAST_STARTED_S OUTLAST_WALLTIME_S OUTLAST_MARGIN_S OUTLAST_TRAIN_AT_MOST_S OUTLAST_POLL_S
# Needs    log, bounded, history
# Sourcing it defines the functions above and does nothing else.

# The timer calls this every second, so it starts no process: sets OL_DEADLINE_END (of the allocation) and
# OL_DEADLINE_AT (of training), UTC seconds.
_ol_deadline_compute() {
  local end_s='' margin_s=''
  read -r end_s 2>/dev/null <"$OUTLAST_STATE/end_time"
  read -r margin_s 2>/dev/null <"$OUTLAST_STATE/margin" || margin_s=''
  OL_DEADLINE_END=${end_s:-$((OUTLAST_STARTED_S + OUTLAST_WALLTIME_S))}
  OL_DEADLINE_AT=$((OL_DEADLINE_END - ${margin_s:-OUTLAST_MARGIN_S}))
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

# What cut off the last job was too short for its save, so twice that; of what a stop takes one and a half. At most a
# third of the walltime, and never less than before.
ol_deadline_learn() {
  local late_s stop_s margin_s cap_s=$((OUTLAST_WALLTIME_S / 3)) why
  late_s=$(ol_history_margin_s)
  stop_s=$(ol_history_stop_s)
  margin_s=$((late_s * 2 > stop_s * 3 / 2 ? late_s * 2 : stop_s * 3 / 2))
  ((margin_s <= cap_s)) || margin_s=$cap_s
  ((margin_s > OUTLAST_MARGIN_S)) || return 0
  why="a stop takes $stop_s s"
  ((late_s == 0)) || why+=", and a margin of $late_s s was too short"
  ol_log_info "stopping $margin_s s before the allocation ends, not $OUTLAST_MARGIN_S: $why"
  OUTLAST_MARGIN_S=$margin_s
  printf '%d\n' "$margin_s" >"$OUTLAST_STATE/margin.new" && mv -f "$OUTLAST_STATE/margin.new" "$OUTLAST_STATE/margin"
}

_ol_deadline_ask() {
  local end_s
  end_s=$(ol_sched_end_time) || return
  [[ $end_s =~ ^[0-9]+$ ]] || return
  printf '%d\n' "$end_s" >"$OUTLAST_STATE/end_time.new" && mv -f "$OUTLAST_STATE/end_time.new" "$OUTLAST_STATE/end_time"
}

# One look a second at the clock; the scheduler is asked now and then, or at once on a signal's hint. A
# child asks: a scheduler that hangs must not hold up the deadline.
_ol_deadline_loop() { # MAIN_PID
  local tick=0 now_s asker=''
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    if ((tick % OUTLAST_POLL_S == 0)) || [[ -e $OUTLAST_STATE/ask ]]; then
      rm -f "$OUTLAST_STATE/ask"
      if [[ -z $asker ]] || ! kill -0 "$asker" 2>/dev/null; then
        _ol_deadline_ask &
        asker=$!
      fi
    fi
    _ol_deadline_compute
    printf -v now_s '%(%s)T' -1
    if ((now_s >= OL_DEADLINE_AT)) && [[ ! -e $OUTLAST_STATE/deadline ]]; then
      printf '%d %s\n' "$now_s" "the allocation ends in $((OL_DEADLINE_END - now_s)) s" >"$OUTLAST_STATE/deadline"
    elif ((OL_DEADLINE_AT - now_s > 60)) && [[ -e $OUTLAST_STATE/deadline && ! -e $OUTLAST_STATE/asked ]]; then
      rm -f "$OUTLAST_STATE/deadline" # the limit was raised before anybody was told
    fi
    tick=$((tick + 1))
    ol_bounded_nap 1
  done
}

ol_deadline_start() {
  [[ -z ${OUTLAST_TIMER_PID:-} ]] || ! kill -0 "$OUTLAST_TIMER_PID" 2>/dev/null || return 0
  _ol_deadline_ask || ol_log_warn "the scheduler does not say when the job ends; counting on $OUTLAST_WALLTIME_S s"
  _ol_deadline_loop "$$" &
  OUTLAST_TIMER_PID=$!
}
