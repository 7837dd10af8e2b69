#!/usr/bin/env bats
# How long a trainer may stand still, on a clock of the test's own
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  T=0 STEP=0
  ol_cadence_recall
  ol_cadence_begin 0
}

# COUNT steps, each GAP_S after the one before.
steps() { # COUNT GAP_S
  local i
  for ((i = 0; i < $1; i++)); do
    T=$((T + $2)) STEP=$((STEP + 1))
    ol_cadence_step "$T" "$STEP"
  done
}

# The age at which it is called a hang, from here on.
limit() {
  status_of ol_cadence_judge "$T"
  LIMIT=$OL_CADENCE_LIMIT_S
}
hangs_after() { # SEC
  ol_cadence_judge "$((T + $1))"
}

@test "cadence: half an hour until something is learned" {
  steps 10 5
  limit
  [ "$LIMIT" = 1800 ]
  run ! hangs_after 1800
  run -0 hangs_after 1801
}

@test "cadence: the limit comes down within the first hour, as what happens once an hour is seen" {
  steps 100 5
  limit
  [ "$LIMIT" = 1552 ]
  steps 800 5
  limit
  [ "$LIMIT" = 300 ]
}

@test "cadence: five times what is usual, three times the longest" {
  steps 200 70
  limit
  [ "$LIMIT" = 395 ] # a gap of 70 s is counted among those of up to 79
  steps 1 400
  steps 1 70
  limit
  [ "$LIMIT" = 1200 ]
}

@test "cadence: a compile in the middle is forgotten after some hours" {
  steps 100 60
  steps 1 1500
  steps 10 60
  limit
  ((LIMIT > 1800))
  steps 1000 60
  limit
  [ "$LIMIT" = 315 ]
}

@test "cadence: a trainer whose lines are an hour apart is not killed for it" {
  steps 6 3600
  limit
  ((LIMIT > 7200))
  steps 30 3600
  limit
  ((LIMIT >= 5400))
}

@test "cadence: words are no progress, however many" {
  steps 800 5
  for ((i = 1; i < 301; i++)); do ol_cadence_sign "$((T + i))" log; done
  run -0 hangs_after 301
}

@test "cadence: of a trainer whose steps nobody has ever seen only silence counts" {
  ol_cadence_sign 90000 log
  status_of ol_cadence_judge 91000
  [ "$status $OL_CADENCE_PHASE" = "1 unknown" ]
  status_of ol_cadence_judge 91801
  [ "$status $OL_CADENCE_PHASE" = "0 unknown" ]
}

@test "cadence: where steps are known, a start that makes none is a hang, whatever it says" {
  ol_cadence_recall 5 5 9000 0 0 200
  ol_cadence_begin 0
  ol_cadence_sign 1000 log
  status_of ol_cadence_judge 1000
  [ "$status $OL_CADENCE_PHASE $OL_CADENCE_LIMIT_S" = "1 start 1000" ]
  status_of ol_cadence_judge 1001
  [ "$status" = 0 ]
}

@test "cadence: a resume is not judged by a fresh start: until one was seen only silence counts" {
  local fields=()
  ol_cadence_recall 5 5 9000 0 0 120
  ol_cadence_begin 0 40
  ol_cadence_sign 1500 log
  status_of ol_cadence_judge 3300
  [ "$status $OL_CADENCE_PHASE $OL_CADENCE_LIMIT_S" = "1 unknown 1800" ]
  status_of ol_cadence_judge 3301
  [ "$status" = 0 ]
  ol_cadence_step 2000 41
  mapfile -t fields < <(ol_cadence_learned)
  [[ ${fields[*]} == *' start_s:=120 resume_s:=2000' ]]
  ol_cadence_begin 5000 40
  status_of ol_cadence_judge 5000
  [ "$OL_CADENCE_PHASE $OL_CADENCE_LIMIT_S" = "start 10000" ]
  ol_cadence_begin 5000
  status_of ol_cadence_judge 5000
  [ "$OL_CADENCE_PHASE $OL_CADENCE_LIMIT_S" = "start 900" ]
}

@test "cadence: a run that has only been resumed has learned something" {
  ol_cadence_begin 0 40
  ol_cadence_step 300 41
  run -0 ol_cadence_learned
  [[ $output == *start_s:=0$'\n'resume_s:=300 ]]
}

@test "cadence: an evaluation has its own limit, and is no usual gap" {
  steps 800 5
  ol_cadence_sign "$((T + 1))" eval '| 1/40 ['
  status_of ol_cadence_judge "$((T + 1500))"
  [ "$status $OL_CADENCE_PHASE" = "1 eval" ]
  steps 1 400
  limit
  [ "$LIMIT" = 300 ]
  ol_cadence_sign "$((T + 1))" eval '| 1/40 ['
  limit
  [ "$LIMIT" = 1600 ]
}

@test "cadence: an evaluation that moves is none that hangs; one whose words repeat themselves may be" {
  steps 800 5
  ol_cadence_sign "$((T + 1700))" eval '| 1/40 ['
  ol_cadence_sign "$((T + 3400))" eval '| 2/40 ['
  ol_cadence_sign "$((T + 5100))" eval '| 2/40 ['
  run ! hangs_after 5200
  run -0 hangs_after 5201
}

@test "cadence: a checkpoint has its own limit, from the last time that its files moved" {
  steps 800 5
  ol_cadence_sign "$((T + 10))" save 1
  ol_cadence_sign "$((T + 1000))" save 2
  status_of ol_cadence_judge "$((T + 2700))"
  [ "$status $OL_CADENCE_PHASE" = "1 save" ]
  steps 1 1200
  ol_cadence_sign "$((T + 10))" save 3
  limit
  [ "$LIMIT" = 4800 ]
}

@test "cadence: a heartbeat is progress in every phase" {
  steps 800 5
  ol_cadence_sign "$((T + 150))" beat
  run ! hangs_after 450
  run -0 hangs_after 451
}

@test "cadence: behind the last step silence counts, with the limit of a save" {
  OUTLAST_TARGET_STEP=800
  steps 800 5
  ol_cadence_sign "$((T + 1700))" log
  run ! hangs_after 3500
  run -0 hangs_after 3501
}

@test "cadence: sleep is forgiven" {
  steps 800 5
  ol_cadence_forgive "$((T + 9000))"
  run ! hangs_after 9300
  run -0 hangs_after 9301
}

@test "cadence: a second hang at the same step is waited for twice as long, until it is passed" {
  ol_cadence_recall 5 5 9000 0 0 20 0 1 801
  ol_cadence_begin 0
  STEP=800
  steps 1 5
  limit
  [ "$LIMIT" = 600 ]
  ol_cadence_hung
  limit
  [ "$LIMIT" = 1200 ]
  steps 1 5
  limit
  [ "$LIMIT" = 300 ]
}

@test "cadence: what a job file sets is taken as it is" {
  OUTLAST_IDLE_S=7 OUTLAST_EVAL_LIMIT_S=20 OUTLAST_SAVE_LIMIT_S=30 OUTLAST_START_LIMIT_S=40
  limit
  [ "$LIMIT" = 40 ]
  steps 1 5
  limit
  [ "$LIMIT" = 7 ]
  ol_cadence_sign "$T" eval 1
  limit
  [ "$LIMIT" = 20 ]
  ol_cadence_sign "$T" save 1
  limit
  [ "$LIMIT" = 30 ]
}

@test "cadence: what was learned comes back as it went into the ledger" {
  local fields=()
  steps 900 5
  mapfile -t fields < <(ol_cadence_learned)
  past 6 cadence "${fields[@]}"
  run -0 ol_history_cadence
  [ "$output" = "5 5 4495 0 0 5 0 0 0" ]
}

@test "cadence: a first step within the first second is a start that was seen" {
  ol_cadence_step 0 1
  run -0 ol_cadence_learned
  [[ $output == *start_s:=1$'\n'* ]]
}

@test "cadence: a launch that made no step has learned nothing" {
  run -1 ol_cadence_learned
  [ "$output" = "" ]
}
