#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_LAUNCH_PID=$$
}

asked_before() { OUTLAST_STOP_S=$((OUTLAST_STOP_S - $1)); }

@test "stop_ask: writes the reason down, makes the stop file and says so in the ledger" {
  ol_stop_ask deadline
  [ "$(ol_stop_asked)" = deadline ]
  [ -e "$OUTLAST_LOCAL/stop" ]
  [[ $(event signal) == *'"name":"stop","from":"deadline"}' ]]
}

@test "stop_ask: the reason is written before anybody is told" {
  OUTLAST_SAVE_SIGNAL=USR1 OUTLAST_SAVES_ON_STOP=0
  ol_sched_signal_launch() { cp "$OUTLAST_STATE/asked" "$SCHED/asked_when_told"; }
  ol_stop_ask deadline
  [ "$(cat "$SCHED/asked_when_told")" = deadline ]
}

@test "stop_ask: the first reason counts" {
  ol_stop_ask stop
  ol_stop_ask deadline
  [ "$(ol_stop_asked)" = stop ]
}

@test "stop_asked: prints nothing when nobody has asked" {
  run -0 ol_stop_asked
  [ "$output" = "" ]
}

@test "stop_push: does nothing before somebody has asked" {
  ol_stop_push
  [ ! -s "$SCHED/told" ]
}

@test "stop_push: a trainer that saves on TERM has half of its time for the stop file first" {
  ol_stop_ask deadline
  ol_stop_push
  [ ! -s "$SCHED/told" ]
  asked_before 10
  ol_stop_push
  told 'signal stop'
}

@test "stop_push: a trainer that saves on a signal gets that signal, then TERM" {
  OUTLAST_SAVE_SIGNAL=USR1 OUTLAST_SAVES_ON_STOP=0
  ol_stop_ask deadline
  told 'signal save'
  asked_before 10
  ol_stop_push
  told 'signal stop'
}

@test "stop_push: a trainer that cannot save is told at once" {
  OUTLAST_SAVES_ON_STOP=0
  ol_stop_ask deadline
  ol_stop_push
  told 'signal stop'
}

@test "stop_push: but not while it writes a checkpoint" {
  OUTLAST_SAVES_ON_STOP=0
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  ol_stop_ask deadline
  ol_stop_push
  [ ! -s "$SCHED/told" ]
  touch "$OUTLAST_CKPT_DIR/checkpoint-40/trainer_state.json"
  ol_stop_push
  told 'signal stop'
}

@test "stop_push: a checkpoint that is written for ever delays the stop, it does not prevent it" {
  OUTLAST_SAVES_ON_STOP=0
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  ol_stop_ask deadline
  asked_before 15
  ol_stop_push
  told 'signal stop'
}

@test "stop_push: ranks that wait for a dead peer and a wrong resume are worth no wait" {
  local reason
  for reason in peers wrong_resume node hang; do
    rm -f "$OUTLAST_STATE/asked"
    : >"$SCHED/told"
    ol_stop_ask "$reason"
    ol_stop_push
    told 'signal stop'
  done
}

@test "stop_push: says stop once, kills once when the time is over, and not before" {
  ol_stop_ask deadline
  asked_before 10
  ol_stop_push
  ol_stop_push
  [ "$(cat "$SCHED/told")" = 'signal stop' ]
  asked_before 10
  ol_stop_push 2>/dev/null
  ol_stop_push
  [ "$(tr '\n' ' ' <"$SCHED/told")" = 'signal stop kill ' ]
}

@test "stop_push: ranks that hang have ten seconds" {
  ol_stop_ask hang
  ol_stop_push
  asked_before 11
  ol_stop_push 2>/dev/null
  [ "$(tr '\n' ' ' <"$SCHED/told")" = 'signal stop kill ' ]
}

@test "stop_push: a job that lost the run kills what it has on this host, by its token, and signals no launcher" {
  OUTLAST_TOKEN=$BATS_TEST_TMPDIR
  env OUTLAST_TOKEN="$OUTLAST_TOKEN" sleep 60 &
  local mine=$!
  env OUTLAST_TOKEN="$OUTLAST_TOKEN.1" sleep 60 &
  local other=$!
  sleep 60 &
  OUTLAST_LAUNCH_PID=$!
  ends_with_the_test "$mine"
  ends_with_the_test "$other"
  until_true grep -qz OUTLAST_TOKEN "/proc/$mine/environ"
  ol_stop_ask lost
  status_of ol_stop_push
  status_of wait "$mine"
  [ "$status" = 137 ]
  status_of wait "$OUTLAST_LAUNCH_PID"
  [ "$status" = 137 ]
  kill -0 "$other"
  [ ! -s "$SCHED/told" ]
}

@test "stop_push: a person's stop waits for the next checkpoint of a trainer that cannot save on request" {
  OUTLAST_SAVE_SIGNAL='' OUTLAST_SAVES_ON_STOP=0 OUTLAST_CKPT_INTERVAL_S=1800
  echo "100 1" >"$OUTLAST_STATE/local_step"
  ol_stop_ask stop
  ol_stop_push
  [ ! -s "$SCHED/told" ]
  echo "200 2" >"$OUTLAST_STATE/local_step"
  ol_stop_push
  [ -s "$SCHED/told" ]
}

@test "stop_push: the deadline, or a checkpoint that does not come, ends that wait" {
  OUTLAST_SAVE_SIGNAL='' OUTLAST_SAVES_ON_STOP=0 OUTLAST_CKPT_INTERVAL_S=1800
  ol_stop_ask stop
  OUTLAST_STOP_ASKED_S=$((OUTLAST_STOP_ASKED_S - 2700))
  ol_stop_push
  [ -s "$SCHED/told" ]
}
