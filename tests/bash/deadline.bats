#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

ends_in() { printf '%s\n' "$(($(now) + $1))" >"$SCHED/end_time"; }
# As many seconds as it was when the test began, on a machine that may be busy.
about() { (($1 >= $2 - 90 && $1 <= $2)); }
answered() { (($(wc -l <"$SCHED/answers") == $1)); }
# The timer in the background, as long as the test lives.
timer() {
  OUTLAST_POLL_S=1
  ol_bounded_nap() { sleep 0.1; } # ten looks at the clock a second
  ol_deadline_start
  ends_with_the_test "$OUTLAST_TIMER_PID"
}

@test "deadline_left: the allocation's end as asked for, less the margin" {
  run -0 ol_deadline_left
  about "$output" 3300
  run -0 ol_deadline_job_left
  about "$output" 3600
}

@test "deadline_left: what the scheduler last said counts, earlier or later" {
  printf '%s\n' "$(($(now) + 1000))" >"$OUTLAST_STATE/end_time"
  run -0 ol_deadline_left
  about "$output" 700
  printf '%s\n' "$(($(now) + 9000))" >"$OUTLAST_STATE/end_time"
  run -0 ol_deadline_left
  about "$output" 8700
}

@test "deadline_left: prints 0, not a negative number, once the deadline has passed" {
  printf '%s\n' "$(($(now) - 240))" >"$OUTLAST_STATE/end_time"
  run -0 ol_deadline_left
  [ "$output" = 0 ]
  run -0 ol_deadline_job_left
  [ "$output" = 0 ]
}

@test "deadline_left: train_at_most stops earlier, never later" {
  OUTLAST_TRAIN_AT_MOST_S=100
  run -0 ol_deadline_left
  about "$output" 100
  OUTLAST_TRAIN_AT_MOST_S=9000
  run -0 ol_deadline_left
  about "$output" 3300
}

@test "deadline_is_near: 0 yes, 1 no" {
  run -0 ol_deadline_is_near 3500
  run -1 ol_deadline_is_near 3000
}

@test "deadline_start: asks the scheduler at once" {
  ends_in 1000
  status_of timer
  run -0 ol_deadline_job_left
  about "$output" 1000
}

@test "deadline_start: without an answer it counts on the walltime, and says so" {
  touch "$SCHED/silent"
  status_of timer 2>"$BATS_TEST_TMPDIR/err"
  grep -q 'counting on 3600 s' "$BATS_TEST_TMPDIR/err"
  run -0 ol_deadline_job_left
  about "$output" 3600
}

@test "deadline_start: an answer that is no time changes nothing" {
  echo 'N/A' >"$SCHED/end_time"
  status_of timer 2>/dev/null
  [ ! -e "$OUTLAST_STATE/end_time" ]
}

@test "timer: writes the deadline down when it comes, by the clock alone" {
  touch "$SCHED/silent"
  OUTLAST_STARTED_S=$(($(now) - 3300))
  status_of timer 2>/dev/null
  until_true test -s "$OUTLAST_STATE/deadline"
  grep -qE '^[0-9]+ the allocation ends in [0-9]+ s$' "$OUTLAST_STATE/deadline"
}

@test "timer: a limit that is lowered while the job runs stops it" {
  ends_in 3600
  status_of timer
  [ ! -e "$OUTLAST_STATE/deadline" ]
  ends_in 200
  until_true test -s "$OUTLAST_STATE/deadline"
}

@test "timer: a limit that is raised takes the deadline back as long as nobody was told" {
  ends_in 200
  status_of timer
  until_true test -s "$OUTLAST_STATE/deadline"
  ends_in 3600
  until_true test ! -e "$OUTLAST_STATE/deadline"
}

@test "timer: a limit that is raised after somebody was told changes nothing" {
  ends_in 200
  status_of timer
  until_true test -s "$OUTLAST_STATE/deadline"
  echo deadline >"$OUTLAST_STATE/asked"
  ends_in 3600
  until_true grep -qx "$(cat "$SCHED/end_time")" "$OUTLAST_STATE/end_time"
  sleep 0.5 # some more looks at the clock
  [ -s "$OUTLAST_STATE/deadline" ]
}

@test "timer: a signal's hint makes it ask before its time" {
  ends_in 3600
  ol_sched_end_time() { tee -a "$SCHED/answers" <"$SCHED/end_time"; }
  OUTLAST_POLL_S=9999
  ol_bounded_nap() { sleep 0.1; }
  ol_deadline_start
  ends_with_the_test "$OUTLAST_TIMER_PID"
  until_true answered 2 # once at the start, once by the timer
  ends_in 200
  touch "$OUTLAST_STATE/ask"
  until_true test -s "$OUTLAST_STATE/deadline"
  [ ! -e "$OUTLAST_STATE/ask" ]
}

@test "timer: a scheduler that hangs does not hold up the deadline" {
  ends_in 302
  ol_sched_end_time() {
    while [[ -e $SCHED/hangs ]]; do sleep 0.05; done
    cat "$SCHED/end_time"
  }
  status_of timer
  touch "$SCHED/hangs"
  until_true test -s "$OUTLAST_STATE/deadline"
  rm "$SCHED/hangs"
}

@test "timer: ends when the job's state is gone" {
  ends_in 3600
  status_of timer
  mv "$OUTLAST_STATE" "$OUTLAST_STATE.gone" # at once; rm would meet what it is writing there
  status_of wait "$OUTLAST_TIMER_PID"
}

@test "deadline_learn: doubles after a job that was cut off, up to a third of the walltime, and never shrinks" {
  ol_deadline_learn
  [ "$OUTLAST_MARGIN_S" = 300 ]
  past 6 ended class=walltime_late margin_s:=300
  ol_deadline_learn
  [ "$OUTLAST_MARGIN_S" = 600 ]
  past 6 ended class=walltime_late margin_s:=900
  ol_deadline_learn
  [ "$OUTLAST_MARGIN_S" = 1200 ]
  OUTLAST_MARGIN_S=1500
  ol_deadline_learn
  [ "$OUTLAST_MARGIN_S" = 1500 ]
}

@test "deadline_learn: one and a half of what a copy takes, and the timer that runs already knows it" {
  ends_in 700
  status_of timer
  [ ! -e "$OUTLAST_STATE/deadline" ]
  past 7 checkpoint_durable seconds:=500
  ol_deadline_learn
  [ "$OUTLAST_MARGIN_S" = 750 ]
  until_true test -s "$OUTLAST_STATE/deadline"
}
