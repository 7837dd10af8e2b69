#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  ol_progress_reset
  OUTLAST_LAUNCH_PID=$$ OUTLAST_WATCH_TICK=0 OUTLAST_FIRST_SEEN=0 OUTLAST_LAST_CKPT='' OUTLAST_PEER_S='' OUTLAST_LATE_S=0 OUTLAST_MARGIN_STEP=''
  ol_hang_begin
}

log() { printf '%s\n' "$@" >>"$OUTLAST_LOG"; }
look() { status_of _ol_watch_round 2>/dev/null; }
asked() { ol_stop_asked; }
# A launcher that ends with CODE when the file `end` appears.
launcher() {
  bash -c 'until [[ -e $1 ]]; do sleep 0.02; done; exit "$2"' _ "$BATS_TEST_TMPDIR/end" "$1" &
  OUTLAST_LAUNCH_PID=$!
  ends_with_the_test "$OUTLAST_LAUNCH_PID"
}
end() { touch "$BATS_TEST_TMPDIR/end"; }

@test "watch: ends with the launcher and knows its code and how long it ran" {
  launcher 3
  OUTLAST_LAUNCH_S=$(($(now) - 50))
  end
  status_of ol_watch
  [ "$OUTLAST_LAUNCH_CODE" = 3 ]
  ((OUTLAST_RAN_S >= 50 && OUTLAST_RAN_S < 80))
  [[ $(cat "$OUTLAST_STATE/ranks") =~ ^ended\ [0-9]+\ 3$ ]]
}

@test "watch: the deadline's file asks for a stop, and the stop ends the watch" {
  launcher 0
  OUTLAST_SAVES_ON_STOP=0
  ol_sched_signal_launch() { end; }
  printf '1 x\n' >"$OUTLAST_STATE/deadline"
  status_of ol_watch 2>/dev/null
  [ "$(asked)" = deadline ]
}

@test "watch: signals in a burst are all noted" {
  trap 'ol_watch_signal TERM' TERM
  trap 'ol_watch_signal USR1' USR1
  (
    kill -USR1 $$
    kill -TERM $$
  )
  until_true test -e "$OUTLAST_STATE/term"
  until_true test -e "$OUTLAST_STATE/ask"
}

@test "watch: the last words of a log count after the launcher's end" {
  launcher 0
  end
  printf 'step 9' >>"$OUTLAST_LOG"
  status_of ol_watch
  [ "$OUTLAST_STEP" = 9 ]
}

@test "watch_first_death: by time, not by place in the log" {
  log '1: outlast: rank 1 on n2 ended with signal SEGV at 1700000009' \
    '0: outlast: rank 0 on n1 ended with code 1 at 1700000002' 'outlast: rank 5 on n1 ended with code 1 at 1700000010'
  look
  run -0 ol_watch_first_death
  [ "$output" = 'outlast: rank 0 on n1 ended with code 1 at 1700000002' ]
}

@test "watch_first_death: nothing when all is well" {
  run ol_watch_first_death
  [ "$output" = "" ]
}

@test "watch: after a rank's death the others get ten seconds, then they are stopped" {
  log "1: outlast: rank 1 on n1 ended with code 1 at $(now)"
  look
  [ "$(asked)" = "" ]
  : >"$OUTLAST_SAID"
  log "1: outlast: rank 1 on n1 ended with code 1 at $(($(now) - 11))"
  look
  [ "$(asked)" = peers ]
}

@test "watch: a rank whose shim was killed is heard through the launcher" {
  log 'srun: error: frontier00002: task 1: Killed'
  look
  [ "$(asked)" = "" ]
  OUTLAST_PEER_S=$((OUTLAST_PEER_S - 11))
  look
  [ "$(asked)" = peers ]
}

@test "watch: the first step goes to the ledger, once" {
  log 'step 11' 'step 12'
  look
  log 'step 13'
  look
  [ "$(grep -c first_step "$OUTLAST_STATE/events.jsonl")" = 1 ]
  [[ $(event first_step) == *'"step":11}' ]]
}

@test "watch: a trainer that begins before the promised step is stopped" {
  OUTLAST_RESUME_STEP=600
  log 'step 10'
  look
  [ "$(asked)" = wrong_resume ]
}

@test "watch: a trainer that goes on at or behind the promised step is left alone" {
  OUTLAST_RESUME_STEP=600
  log 'step 600'
  look
  [ "$(asked)" = "" ]
}

@test "watch: a fresh start may begin anywhere" {
  log 'step 1'
  look
  [ "$(asked)" = "" ]
}

@test "watch: TERM to the script is asked about, decided and passed on at once" {
  printf 'state=ending verdict=cancelled restarts=0\n' >"$SCHED/state.7"
  touch "$OUTLAST_STATE/term"
  look
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "cancelled stop" ]
  [ "$(asked)" = outside ]
}

@test "watch: TERM to the ranks alone is somebody's, and the job does not decide before they have ended" {
  printf 'state=running verdict=none restarts=0\n' >"$SCHED/state.7"
  log '0: outlast: rank 0 got TERM from outside at 1700000000'
  look
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "cancelled " ]
}

@test "watch: what we asked for ourselves is not blamed on somebody else" {
  ol_stop_ask deadline 2>/dev/null
  log '0: outlast: rank 0 got TERM from outside at 1700000000'
  look
  [ "$OUTLAST_CLASS" = "" ]
}

@test "watch: control/stop asks for a stop, a lost lease before it" {
  touch "$OUTLAST_STATE/stop"
  look
  [ "$(asked)" = stop ]
  rm "$OUTLAST_STATE/asked"
  touch "$OUTLAST_STATE/lost"
  _ol_stop_abandon() { :; }
  look
  [ "$(asked)" = lost ]
}

@test "watch: control/save sends the save signal once, and to nobody who would die of it" {
  OUTLAST_SAVE_SIGNAL=USR1
  touch "$OUTLAST_STATE/save"
  look
  look
  [ "$(cat "$SCHED/told")" = 'signal save' ]
  OUTLAST_SAVE_SIGNAL=''
  : >"$SCHED/told"
  touch "$OUTLAST_STATE/save"
  look
  [ ! -s "$SCHED/told" ]
  [[ $(event warned) == *"no save_signal"* ]]
}

@test "watch: a trainer that cannot save stops behind the last checkpoint that fits, and the clock does not undo it" {
  OUTLAST_SAVES_ON_STOP=0
  printf '%s\n' "$(($(now) + OUTLAST_MARGIN_S + 100))" >"$OUTLAST_STATE/end_time"
  printf '20 %d\n' "$(($(now) - 200))" >"$OUTLAST_STATE/local_step"
  look
  [ "$(asked)" = "" ]
  printf '40 %d\n' "$(now)" >"$OUTLAST_STATE/local_step"
  look
  [ "$(asked)" = deadline ]
  [ -e "$OUTLAST_STATE/deadline" ]
}

@test "watch: once a minute, helpers that got lost are started again" {
  sleep 0 &
  OUTLAST_COURIER_PID=$! OUTLAST_SIDECAR_PID=$! OUTLAST_TIMER_PID=$!
  wait "$!"
  OUTLAST_WATCH_TICK=59
  look
  ends_with_the_test "$OUTLAST_COURIER_PID"
  ends_with_the_test "$OUTLAST_SIDECAR_PID"
  ends_with_the_test "$OUTLAST_TIMER_PID"
  kill -0 "$OUTLAST_COURIER_PID" && kill -0 "$OUTLAST_SIDECAR_PID" && kill -0 "$OUTLAST_TIMER_PID"
  [ "$OUTLAST_COURIER_PID" != "$OUTLAST_SIDECAR_PID" ]
}

@test "watch: with time for another checkpoint it goes on" {
  OUTLAST_SAVES_ON_STOP=0
  printf '%s\n' "$(($(now) + OUTLAST_MARGIN_S + 300))" >"$OUTLAST_STATE/end_time"
  printf '20 %d\n' "$(($(now) - 200))" >"$OUTLAST_STATE/local_step"
  look
  printf '40 %d\n' "$(now)" >"$OUTLAST_STATE/local_step"
  look
  [ "$(asked)" = "" ]
}

@test "watch: each copy that becomes durable tells how early to stop; the one that the job began with tells nothing" {
  ol_deadline_learn() { echo learned >>"$BATS_TEST_TMPDIR/learned"; }
  echo 20 >"$OUTLAST_STATE/durable_step"
  look
  look
  [ ! -e "$BATS_TEST_TMPDIR/learned" ]
  echo 40 >"$OUTLAST_STATE/durable_step"
  look
  [ ! -e "$BATS_TEST_TMPDIR/learned" ] # the ledger does not know yet how long it took
  ol_ledger_add checkpoint_durable step:=40 bytes:=5 seconds:=100
  look
  look
  [ "$(wc -l <"$BATS_TEST_TMPDIR/learned")" = 1 ]
}

@test "watch: hours of steps without a durable checkpoint are told, once a stall" {
  OUTLAST_MAIL_TO=bob@example.org OUTLAST_NOT_DURABLE_S=7200 OUTLAST_LATE_S=0 OUTLAST_LAUNCH_S=$(($(now) - 20000))
  ol_mail_start() { :; }
  messages() { find "$OUTLAST_STATE/outbox" -name '*.mail' 2>/dev/null | wc -l; }
  stalls() {
    local tick
    for tick in 1 2; do
      OUTLAST_WATCH_TICK=30
      look
    done
  }
  echo 20 >"$OUTLAST_STATE/durable_step"
  log 'step 21'
  stalls
  [ "$(messages)" = 0 ]
  touch -d '-3 hours' "$OUTLAST_STATE/durable_step"
  stalls
  [ "$(messages)" = 1 ]
  grep -q 'Training goes on (step 21), but no checkpoint has become durable for 180 minutes' "$OUTLAST_STATE"/outbox/*.mail
  [[ $(event warned) == *'no checkpoint has become durable for 108'* ]]
  touch -d '-150 minutes' "$OUTLAST_STATE/durable_step" # one has become durable, the next has not
  stalls
  [ "$(messages)" = 2 ]
}

@test "watch: no checkpoint is late before the launch has had its time, before the first step, or where nobody asks" {
  OUTLAST_MAIL_TO=bob@example.org OUTLAST_NOT_DURABLE_S=7200 OUTLAST_LATE_S=0 OUTLAST_WATCH_TICK=30
  echo 20 >"$OUTLAST_STATE/durable_step"
  touch -d '-3 hours' "$OUTLAST_STATE/durable_step"
  OUTLAST_LAUNCH_S=$(($(now) - 20000))
  look
  log 'step 21'
  OUTLAST_LAUNCH_S=$(now) OUTLAST_WATCH_TICK=30
  look
  OUTLAST_LAUNCH_S=$(($(now) - 20000)) OUTLAST_WATCH_TICK=30 OUTLAST_NOT_DURABLE_S=0
  look
  [ ! -e "$OUTLAST_STATE/outbox" ]
}
