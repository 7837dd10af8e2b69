#!/usr/bin/env bats
# The watchdog: what it sees of a launch, and what it does about a hang
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  ol_progress_reset
  OUTLAST_LAUNCH_PID=$$
  ol_stacks_start() { echo taken >>"$SCHED/stacks"; }
  ol_stacks_are_taken() { [[ -e $SCHED/taken ]]; }
  ol_stacks_stop() { :; }
  _ol_hang_ask_now_and_then() { :; }
  ol_hang_begin
}

log() { printf '%s\n' "$@" >>"$OUTLAST_LOG"; }

look() {
  status_of ol_progress_look "$OUTLAST_LOG"
  status_of ol_hang_look 2>>"$BATS_TEST_TMPDIR/words"
}

# The time is what the test says, however long a look takes.
NOW_S=1700000000
printf() {
  # shellcheck disable=SC2059 # whoever calls it has a format
  if [[ $1 == -v && ${3:-} == '%(%s)T' ]]; then builtin printf -v "$2" '%d' "$NOW_S"; else builtin printf "$@"; fi
}

# So many seconds pass, with a look in each.
pass() { # SEC
  local i
  for ((i = 0; i < $1; i++)); do
    NOW_S=$((NOW_S + 1))
    status_of ol_hang_look 2>>"$BATS_TEST_TMPDIR/words"
  done
}
files() { # HALF SUM HEARTBEAT
  FILES=$((${FILES:-0} + 1))
  printf '%d %s %s %s\n' "$FILES" "$@" >"$OUTLAST_STATE/hang_files"
}
asked() { ol_stop_asked; }

@test "hang: no step for longer than the limit: stacks first, then a stop, and the ledger says which phase" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  pass 8
  [ "$(cat "$SCHED/stacks")" = taken ]
  [[ $(event hang) == *'"phase":"steps","age_s":'[678]*',"limit_s":5,"step":3}' ]]
  [ "$(asked)" = "" ]
  touch "$SCHED/taken"
  pass 1
  [ "$(asked)" = hang ]
}

@test "hang: a chatty log without steps is one" {
  local i
  OUTLAST_IDLE_S=5
  log 'step 3'
  for ((i = 0; i < 12; i++)); do
    log "tracker: heartbeat $i"
    look
    pass 1
  done
  [ -e "$SCHED/stacks" ]
}

@test "hang: a step while the stacks are taken: it goes on" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  pass 8
  log 'step 4'
  look
  touch "$SCHED/taken"
  pass 3
  [ "$(asked)" = "" ]
  [[ $(event warned) == *'the watchdog was mistaken'* ]]
}

@test "hang: an evaluation that the log tells of is none, nor is a save" {
  OUTLAST_IDLE_S=5
  log 'step 3' 'evaluating 1 of 40'
  look
  pass 20
  log 'step 4' 'saving'
  look
  pass 20
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: a step behind the evaluation ends its phase, in one look too" {
  OUTLAST_IDLE_S=5
  log 'step 3' 'evaluating 1 of 40' 'step 4'
  look
  pass 8
  [ -e "$SCHED/stacks" ]
}

@test "hang: a checkpoint whose files move is none, nor one that is half there" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  files - 100 -
  pass 3
  files - 200 -
  pass 20
  [ "$OL_CADENCE_PHASE" = save ]
  log 'step 4'
  look
  files checkpoint-4 200 -
  pass 20
  [ "$OL_CADENCE_PHASE" = save ]
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: files that changed while steps were made, and a half checkpoint that steps went past, excuse nothing" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  files checkpoint-2 100 -
  pass 1
  log 'step 4'
  look
  files checkpoint-2 200 -
  pass 8
  [ -e "$SCHED/stacks" ]
}

@test "hang: a shared file system that gives no answer stops whoever saves" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  files '?' '?' -
  pass 20
  [ "$OL_CADENCE_PHASE" = save ]
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: a heartbeat file that is touched is progress" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  files - 100 1.5
  pass 4
  files - 100 2.5
  pass 4
  [ ! -e "$SCHED/stacks" ]
  pass 5
  [ -e "$SCHED/stacks" ]
}

@test "hang: a machine that slept, or a supervisor that was stopped, raises no alarm" {
  OUTLAST_IDLE_S=60
  log 'step 3'
  look
  pass 40
  OL_HANG_WALL_S=$((OL_HANG_WALL_S - 3600))
  pass 40
  [ ! -e "$SCHED/stacks" ]
  pass 30
  [ -e "$SCHED/stacks" ]
}

@test "hang: a clock that is set back raises no alarm" {
  OUTLAST_IDLE_S=20
  log 'step 3'
  look
  OL_HANG_WALL_S=$((OL_HANG_WALL_S + 3600))
  pass 3
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: looks that are slow count little" {
  OUTLAST_IDLE_S=30
  log 'step 3'
  look
  OL_HANG_WALL_S=$((OL_HANG_WALL_S - 50))
  pass 1
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: who was asked to stop is not judged, and a watchdog that is off never is" {
  OUTLAST_IDLE_S=5
  log 'step 3'
  look
  ol_stop_ask deadline 2>/dev/null
  pass 20
  rm "$OUTLAST_STATE/asked"
  OUTLAST_WATCHDOG=0
  pass 20
  [ ! -e "$SCHED/stacks" ]
}

@test "hang: the next launch knows the cadence, and so does the next job" {
  local i
  for ((i = 1; i < 30; i++)); do
    log "step $i"
    look
    pass 2
  done
  status_of ol_hang_end
  [[ $(event cadence) == *'"usual_s":'[1-9]*',"longest_s":'* ]]
  ol_hang_begin
  ((OL_CADENCE_N >= 25))
  cp "$OUTLAST_STATE/events.jsonl" "$OUTLAST_STATE/history.jsonl"
  unset OL_HANG_T
  ol_hang_begin
  ((OL_CADENCE_KNOWN_Q_S >= 2 && OL_CADENCE_START_S >= 0))
}

@test "hang: a launch from a checkpoint is learned as a resume" {
  OUTLAST_RESUME_STEP=40
  ol_hang_begin
  log 'step 41'
  look
  status_of ol_hang_end
  [[ $(event cadence) == *'"start_s":0,"resume_s":'[1-9]* ]]
}

@test "hang_files: a half checkpoint, the sum of what lies there, and the heartbeat" {
  local first second
  checkpoint 20
  first=$(_ol_hang_files "$OUTLAST_CKPT_DIR" checkpoint- trainer_state.json '')
  [[ $first == '- '*' -' ]]
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  echo x >"$OUTLAST_CKPT_DIR/checkpoint-40/model"
  touch "$OUTLAST_CKPT_DIR/.beat"
  second=$(_ol_hang_files "$OUTLAST_CKPT_DIR" checkpoint- trainer_state.json "$OUTLAST_CKPT_DIR/.beat")
  [[ $second =~ ^checkpoint-40\ .*\ [0-9]+\.[0-9]+$ ]]
  [ "${first% *}" != "${second% *}" ]
  touch "$OUTLAST_CKPT_DIR/checkpoint-20/MANIFEST.json" # ours
  [ "$(_ol_hang_files "$OUTLAST_CKPT_DIR" checkpoint- trainer_state.json "$OUTLAST_CKPT_DIR/.beat")" = "$second" ]
}

@test "hang_ask: writes its answer whole; no answer of the file system is one" {
  status_of _ol_hang_ask 17
  [[ $(cat "$OUTLAST_STATE/hang_files") == '17 - '*' -' ]]
  ol_shared_print() { return 124; }
  status_of _ol_hang_ask 18
  [ "$(cat "$OUTLAST_STATE/hang_files")" = '18 ? ? -' ]
}
