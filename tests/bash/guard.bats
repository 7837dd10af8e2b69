#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

start() { status_of ol_guard_may_start; }
repeat() { status_of ol_guard_may_repeat "${1:-0}"; }
fails() { OUTLAST_FINGERPRINT=$1 OUTLAST_STEP=$2 OUTLAST_RAN_S=${3:-3}; }

@test "guard_may_start: a fresh run may" {
  start
  [ "$status $OUTLAST_WHY" = "0 " ]
}

@test "guard_may_start: not when the run is finished, stopped or held, and the reason is the file's" {
  printf 'three times the same\ntype this\n' >"$OUTLAST_RUN_DIR/control/hold"
  start
  [ "$status $OUTLAST_WHY" = "1 control/hold is set: three times the same" ]
  touch "$OUTLAST_RUN_DIR/control/stop"
  start
  [ "$status $OUTLAST_WHY" = "1 control/stop is set" ]
  touch "$OUTLAST_RUN_DIR/finished"
  start
  [ "$status $OUTLAST_WHY $OUTLAST_HOLD" = "1 the run is finished " ]
}

@test "guard_may_start: 2 when the files cannot be read" {
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  start
  [ "$status" = 2 ]
}

@test "guard_may_start: not when somebody cancelled the parent, and that is one to hold" {
  OUTLAST_PARENT=6
  printf 'state=ended verdict=cancelled restarts=0\n' >"$SCHED/state.6"
  start
  [ "$status $OUTLAST_HOLD" = "1 1" ]
  [[ $OUTLAST_WHY == *"job 6"* ]]
}

@test "guard_may_start: a parent that is still on its way out is waited for, as its end is not known yet" {
  OUTLAST_PARENT=6
  printf 'state=ending verdict=none restarts=0\n' >"$SCHED/state.6"
  ol_run_pause() { printf 'state=ended verdict=cancelled restarts=0\n' >"$SCHED/state.6"; }
  start
  [ "$status" = 1 ]
}

@test "guard_may_start: a parent that never gets off is not waited for for ever" {
  OUTLAST_PARENT=6
  printf 'state=ending verdict=none restarts=0\n' >"$SCHED/state.6"
  ol_run_pause() { :; }
  start
  [ "$status" = 0 ]
}

@test "guard_may_start: a parent that its own ledger calls cancelled needs no scheduler" {
  OUTLAST_PARENT=6
  touch "$SCHED/silent"
  past 6 ended class=cancelled
  start
  [ "$status $OUTLAST_HOLD" = "1 1" ]
  past '' resumed by=bob
  start
  [ "$status" = 0 ]
}

@test "guard_may_start: a parent that ended otherwise, is forgotten or not told about is no reason" {
  OUTLAST_PARENT=6
  start
  [ "$status" = 0 ]
  printf 'state=ended verdict=timelimit restarts=0\n' >"$SCHED/state.6"
  start
  [ "$status" = 0 ]
  touch "$SCHED/silent"
  start
  [ "$status" = 0 ]
}

@test "guard G1: the fourth job that would begin where three began is held, the third is not" {
  past 4 started durable_step:=600
  past 5 started durable_step:=600
  OUTLAST_DURABLE_STEP=600
  start
  [ "$status" = 0 ]
  past 6 started durable_step:=600
  start
  [ "$status $OUTLAST_HOLD" = "1 1" ]
  [[ $OUTLAST_WHY == "3 jobs in a row made no durable step beyond 600" ]]
}

@test "guard G1: the third job without a step forward has no successor; one with a step has" {
  past 5 started durable_step:=600
  past 6 started durable_step:=600
  ol_ledger_add started durable_step:=600
  repeat 600
  [ "$status" = 1 ]
  repeat 650
  [ "$status" = 0 ]
}

@test "guard G2: three times the same failure at the same step, this one counted" {
  fails 'signal SEGV' 40
  past 6 ended class=crash fingerprint='signal SEGV' step:=40
  repeat
  [ "$status" = 0 ]
  past 6 ended class=crash fingerprint='signal SEGV' step:=40
  repeat
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == "3 times the same failure (signal SEGV) at step 40" ]]
}

@test "guard G2: elsewhere, or another failure, is another matter" {
  past 6 ended class=crash fingerprint='signal SEGV' step:=40
  past 6 ended class=crash fingerprint='signal SEGV' step:=40
  fails 'signal SEGV' 41
  repeat
  [ "$status" = 0 ]
  fails 'code 1' 40
  repeat
  [ "$status" = 0 ]
}

@test "guard G2: a failure before the first step has no step, and counts" {
  past 6 ended class=crash fingerprint='code 1' step:=
  past 6 ended class=crash fingerprint='code 1' step:=
  fails 'code 1' ''
  repeat
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"before the first step" ]]
}

@test "guard G3: no wait after a long attempt or an end that is no failure" {
  fails 'code 1' 40 700
  [ "$(ol_guard_delay_s)" = 0 ]
  OUTLAST_FINGERPRINT=''
  OUTLAST_RAN_S=3
  [ "$(ol_guard_delay_s)" = 0 ]
}

@test "guard G3: rapid crashes wait, doubling, an hour at most" {
  fails 'code 1' 40
  [ "$(ol_guard_delay_s)" = 60 ]
  past 6 ended class=crash fingerprint='code 1' ran_s:=3
  [ "$(ol_guard_delay_s)" = 120 ]
  local n
  for n in 1 2 3 4 5 6 7 8 9; do past 6 ended class=crash fingerprint='code 1' ran_s:=3; done
  [ "$(ol_guard_delay_s)" = 3600 ]
}

@test "guard G4: the run has as many jobs as it may" {
  OUTLAST_MAX_JOBS=2
  past 5 started durable_step:=0
  start
  [ "$status" = 0 ]
  past 6 started durable_step:=100
  OUTLAST_DURABLE_STEP=200
  start
  [ "$status $OUTLAST_HOLD" = "1 1" ]
  [[ $OUTLAST_WHY == *"guard.max_jobs"* ]]
}

@test "guard G4: the last job of the budget may launch again, and has no successor" {
  OUTLAST_MAX_JOBS=2
  past 6 started durable_step:=0
  ol_ledger_add started durable_step:=100
  OUTLAST_THEN=relaunch
  repeat 200
  [ "$status" = 0 ]
  OUTLAST_THEN=submit
  repeat 200
  [ "$status" = 1 ]
}

@test "guard G4: node hours" {
  OUTLAST_MAX_NODE_HOURS=8
  PAST_S=1700000000 past 6 started nodes:=8 durable_step:=0
  PAST_S=1700003000 past 6 progress step:=1
  start
  [ "$status" = 0 ]
  PAST_S=1700003700 past 6 ended class=walltime
  start
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"guard.max_node_hours"* ]]
}

@test "guard G4: the end date" {
  OUTLAST_END_DATE=2999-01-01
  start
  [ "$status" = 0 ]
  OUTLAST_END_DATE=2020-01-01
  start
  [ "$status $OUTLAST_HOLD" = "1 1" ]
}

@test "guard: a resume by a person clears what had held the run" {
  local job
  for job in 4 5 6; do past "$job" started durable_step:=600; done
  OUTLAST_DURABLE_STEP=600
  past '' resumed by=bob
  start
  [ "$status" = 0 ]
}
