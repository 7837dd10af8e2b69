#!/usr/bin/env bats
# lib/scheduler/local.sh, with real jobs in a queue of the test's own
# shellcheck disable=SC2016,SC2030,SC2031 # text for a job; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  # shellcheck source=lib/scheduler/local.sh
  source "$ROOT/lib/scheduler/local.sh"
  export OUTLAST_LOCAL_QUEUE="$BATS_TEST_TMPDIR/my queue"
  unset OUTLAST_LOCAL_JOB
  HERE=$BATS_TEST_TMPDIR
}

# The runners of a test that failed. (A job that a test entered by hand has the test's own number.)
teardown() {
  local file pid
  for file in "$OUTLAST_LOCAL_QUEUE"/*/pid; do
    [[ -e $file ]] && read -r pid _ <"$file" && [[ $pid != "$$" ]] || continue
    pkill -KILL -P "$pid" || true
    kill -KILL "$pid" 2>/dev/null || true
  done
}

# A job that does TEXT; $HERE is the test's folder. Sets ID.
submit() { # TEXT [OPTION]...
  printf 'HERE=%q\n%s\n' "$HERE" "$1" >"$HERE/script"
  ID=$(ol_sched_submit "$HERE/script" "${NAME:-demo}" dir="$HERE" "${@:2}" 2>"$HERE/err")
}
state() { ol_sched_state "$1"; }
is() { [[ $(state "$1") == "$2" ]]; }
ends() { until_true is "$1" "state=ended verdict=$2 restarts=0"; }
# A job that is ready until the file `go` appears.
WAITS='touch "$HERE/ready"; until [[ -e $HERE/go ]]; do sleep 0.05; done'
ready() { until_true test -e "$HERE/ready"; }

@test "local_submit: prints a number, and the job runs in its folder, with nothing of our environment" {
  export SECRET=1
  NAME='R&D' submit 'echo "$PWD ${SECRET:-nothing} $OUTLAST_LOCAL_JOB"' output="$HERE/out %x.%j"
  [ "$ID" = 1 ]
  ends 1 ok
  [ "$(cat "$HERE/out R&D.1")" = "$HERE nothing 1" ]
}

@test "local_submit: 1 for a script that is not there, with the reason" {
  run -1 ol_sched_submit "$HERE/nothing" demo
  [[ $output == *"no script"* ]]
}

@test "local_submit: the job has what was submitted, whatever becomes of the file" {
  submit "$WAITS; echo old"
  ready
  echo 'echo new' >"$HERE/script"
  touch "$HERE/go"
  ends 1 ok
}

@test "local_submit: ids count on, also when many submit at a time" {
  local n
  printf 'true\n' >"$HERE/script"
  for n in 1 2 3 4; do ol_sched_submit "$HERE/script" demo >"$HERE/id.$n" & done
  wait
  [ "$(cat "$HERE"/id.* | sort -n | paste -sd' ')" = "1 2 3 4" ]
  for n in 1 2 3 4; do ends "$n" ok; done
}

@test "local_state: pending, running, ended; 1 for an id that is not known" {
  submit "$WAITS"
  ready
  is 1 'state=running verdict=none restarts=0'
  submit true depend=1
  is 2 'state=pending verdict=none restarts=0'
  touch "$HERE/go"
  ends 2 ok
  run -1 ol_sched_state 99
}

@test "local_state: a script that fails has failed" {
  submit 'exit 3'
  ends 1 failed
}

@test "local_state: a job whose runner was killed has ended, running or pending" {
  submit "$WAITS"
  ready
  submit true depend=1
  until_true test -e "$OUTLAST_LOCAL_QUEUE/2/pid"
  local pid
  for id in 2 1; do
    read -r pid _ <"$OUTLAST_LOCAL_QUEUE/$id/pid"
    kill -KILL "$pid"
    until_true is "$id" 'state=ended verdict=failed restarts=0'
  done
  touch "$HERE/go"
  run -1 ol_sched_find demo
}

@test "local_state: a number that a later process has got is not the job" {
  submit true
  ends 1 ok
  _ol_local_put 1 state running
  _ol_local_put 1 verdict none
  _ol_local_put 1 pid "$$ 12345"
  is 1 'state=ended verdict=failed restarts=0'
}

@test "local: a queue that cannot be read says nothing about its jobs, and a job that waits goes on waiting" {
  local queue=$OUTLAST_LOCAL_QUEUE
  mkdir "$queue.d" && ln -s "$queue.d" "$queue"
  submit "$WAITS"
  ready
  submit 'touch "$HERE/child"' depend=1
  ln -s "$queue" "$queue.new" && mv -T "$queue.new" "$queue" # a link to itself: root cannot read that either
  run -2 ol_sched_state 1
  run -2 ol_sched_state 99
  run -2 ol_sched_find demo
  run -2 ol_sched_cancel 1
  touch "$HERE/go"
  ln -s "$queue.d" "$queue.new" && mv -T "$queue.new" "$queue"
  ends 2 ok
  [ -e "$HERE/child" ]
}

@test "local: a dependent job starts when its parent has ended, however that was" {
  submit "$WAITS; exit 3"
  submit 'touch "$HERE/child"' depend=1
  ready
  [ ! -e "$HERE/child" ]
  touch "$HERE/go"
  ends 2 ok
  [ -e "$HERE/child" ]
}

@test "local: a dependency on a job that nobody knows starts at once" {
  submit true depend=99
  ends 1 ok
}

@test "local: a delay is kept, and a cancel ends it" {
  submit 'touch "$HERE/ran"' delay_s=60
  ol_sched_cancel 1
  ends 1 cancelled
  [ ! -e "$HERE/ran" ]
}

@test "local_find: the pending or running job of that name, 1 when there is none" {
  run -1 ol_sched_find demo
  NAME='demo 4' submit "$WAITS"
  ready
  run -0 ol_sched_find 'demo 4'
  [ "$output" = 1 ]
  run -1 ol_sched_find demo
  touch "$HERE/go"
  ends 1 ok
  run -1 ol_sched_find 'demo 4'
}

@test "local_cancel: TERM first, and the verdict is cancelled whatever the script says" {
  submit 'trap "touch $HERE/term; exit 0" TERM; '"$WAITS"
  ready
  ol_sched_cancel 1
  ends 1 cancelled
  [ -e "$HERE/term" ]
}

@test "local_cancel: an ended job stays what it was, an unknown one is no failure" {
  submit true
  ends 1 ok
  run -0 ol_sched_cancel 1 99
  is 1 'state=ended verdict=ok restarts=0'
}

@test "local_cancel: a job that is just about to start does not run as a cancelled one" {
  submit "$WAITS; touch \$HERE/ran" depend=99
  ol_sched_cancel 1 # whatever side of the start it falls on, the job ends, and soon
  ends 1 cancelled
  [ ! -e "$HERE/ran" ]
}

@test "local: the time limit of the script ends it, and the verdict says so" {
  submit "OUTLAST_WALLTIME_S=1"$'\n'"$WAITS"
  ends 1 timelimit
}

@test "local: a limit that is changed while the job runs counts, and ends it with TERM" {
  submit "OUTLAST_WALLTIME_S=3600"$'\n''trap "touch $HERE/term; exit 0" TERM; '"$WAITS"
  ready
  _ol_local_put 1 end_time "$(now)"
  ends 1 timelimit
  [ -e "$HERE/term" ]
}

@test "local_end_time: of a job, of one's own; 2 when it is not known" {
  submit "OUTLAST_WALLTIME_S=3600"$'\n'"$WAITS"
  ready
  run -0 ol_sched_end_time 1
  ((output > $(now) + 3500))
  OUTLAST_LOCAL_JOB=1 run -0 ol_sched_end_time
  run -2 ol_sched_end_time 99
  touch "$HERE/go"
  ends 1 ok
}

@test "local: what a job leaves behind goes with it" {
  submit 'sleep 60 & echo $! >"$HERE/child"'
  ends 1 ok
  local child
  read -r child <"$HERE/child"
  until_true eval "! kill -0 $child 2>/dev/null"
}

@test "local_job_id: a script started by hand enters itself into the queue" {
  OUTLAST_RUN=demo
  run -0 ol_sched_job_id
  [ "$output" = 1 ]
  is 1 'state=running verdict=none restarts=0'
  OUTLAST_LOCAL_JOB=5 run -0 ol_sched_job_id
  [ "$output" = 5 ]
}

# ---- the launcher: RANK and friends, signals on, the highest code

# It ends its shell, so it gets one of its own, in the background: PID.
launch() { # RANKS TEXT
  (
    set +e
    trap - EXIT
    ol_sched_launch n1 "$1" bash -c "$2" >"$HERE/out" 2>&1
  ) &
  PID=$!
  ends_with_the_test "$PID"
}

@test "local_launch: so many ranks, each with its number" {
  launch 3 'echo "$RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE"'
  status_of wait "$PID"
  [ "$status" = 0 ]
  [ "$(sort "$HERE/out" | paste -sd,)" = "0 0 0 3,1 1 0 3,2 2 0 3" ]
}

@test "local_launch: waits for all, and the highest code is its own" {
  launch 3 'sleep 0.$RANK; touch '"$HERE"'/done.$RANK; exit $((RANK == 1 ? 7 : RANK))'
  status_of wait "$PID"
  [ "$status" = 7 ]
  [ -e "$HERE/done.2" ]
}

@test "local_launch: save and stop reach every rank as USR1 and USR2" {
  launch 2 'trap "echo usr1.\$RANK" USR1; trap "echo usr2.\$RANK; exit 0" USR2; echo ready.$RANK; while :; do sleep 0.05; done'
  until_true grep -q ready.0 "$HERE/out"
  until_true grep -q ready.1 "$HERE/out"
  ol_sched_signal_launch "$PID" save
  until_true grep -q usr1.0 "$HERE/out"
  until_true grep -q usr1.1 "$HERE/out"
  ol_sched_signal_launch "$PID" stop
  status_of wait "$PID"
  [ "$status" = 0 ]
  grep -q usr2.0 "$HERE/out" && grep -q usr2.1 "$HERE/out"
}

@test "local_kill_launch: ends ranks that heed nothing, with their children" {
  launch 2 'trap "" TERM USR1 USR2; sleep 60 & echo "child $!"; echo ready; while :; do sleep 0.05; done'
  until_true eval '[[ $(grep -c ready "$HERE/out") == 2 ]]'
  status_of ol_sched_kill_launch "$PID"
  status_of wait "$PID"
  [ "$status" = 137 ]
  local child
  while read -r child; do
    until_true eval "! kill -0 $child 2>/dev/null"
  done < <(sed -n 's/^child //p' "$HERE/out")
}

@test "local_on_each: here, within its limit" {
  run -0 ol_sched_on_each 5 n1 echo here
  [ "$output" = here ]
  run -124 ol_sched_on_each 1 n1 sleep 60
}

@test "local: there is one node, which no job can do without" {
  run -0 ol_sched_known_nodes n1 n2
  [ "$output" = n1 ]
  run -1 ol_sched_exclude 1 n1
  run -1 ol_sched_release n1
}
