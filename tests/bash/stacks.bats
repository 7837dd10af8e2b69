#!/usr/bin/env bats
# What the processes of a launch are doing, of real processes
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_TOKEN=$BATS_TEST_TMPDIR
}

# A process of the launch, as rank N, of some words.
rank() { # N WORDS...
  env OUTLAST_TOKEN="$OUTLAST_TOKEN" RANK="$1" "${@:2}" >"$BATS_TEST_TMPDIR/out.$1" 2>&1 &
  PID=$!
  ends_with_the_test "$PID"
  until_true grep -qz OUTLAST_TOKEN "/proc/$PID/environ"
}
taken() { status_of _ol_stacks_collect 2>/dev/null; }
text() { cat "$OUTLAST_RUN_DIR/stacks/7.0.1/$1.txt"; }
waits() { grep -q '^State:.*[ST] (' "/proc/$1/status"; }

@test "stacks: each process with the token, its state and what its threads wait for; nobody else's" {
  sleep 60 &
  local other=$!
  ends_with_the_test "$other"
  rank 3 sleep 60
  OUTLAST_NODE_LIST=$(cat /proc/sys/kernel/hostname)
  until_true waits "$PID"
  taken
  run -0 text "${OUTLAST_NODE_LIST%%.*}"
  [[ $output == *"== process $PID, rank 3: sleep 60"*"State: S (sleeping)"*"thread $PID sleep waits in "* ]]
  [[ $output != *"process $other,"* ]]
}

@test "stacks: no secret of a command line, not of ours nor of py-spy's" {
  mkdir "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/bash\nprintf "Process 1: train --api-key hunter2\nThread 1\n"\n' >"$BATS_TEST_TMPDIR/bin/py-spy"
  chmod +x "$BATS_TEST_TMPDIR/bin/py-spy"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH rank 3 python3 -c 'import time; time.sleep(60)' --api-key hunter2 --lr 1
  OUTLAST_NODE_LIST=$(cat /proc/sys/kernel/hostname)
  taken
  run -0 text "${OUTLAST_NODE_LIST%%.*}"
  [[ $output == *"time.sleep(60) --api-key *** --lr 1"*"Process 1: train --api-key ***"*"Thread 1"* ]]
  [[ $output != *hunter2* ]]
}

@test "stacks: a stopped process is seen to be one" {
  rank 0 sleep 60
  kill -STOP "$PID"
  OUTLAST_NODE_LIST=$(cat /proc/sys/kernel/hostname)
  until_true grep -q '^State:.*T (' "/proc/$PID/status"
  taken
  run -0 text "${OUTLAST_NODE_LIST%%.*}"
  [[ $output == *"State: T (stopped)"* ]]
}

@test "stacks: the signal reaches who handles it, and nobody who would die of it" {
  OUTLAST_STACK_SIGNAL=USR1 # a shell in the background has QUIT ignored
  rank 0 python3 -c 'import faulthandler, signal, time
faulthandler.register(signal.SIGUSR1)
print("ready", flush=True)
def wait_for_peers(): time.sleep(60)
wait_for_peers()'
  until_true grep -q ready "$BATS_TEST_TMPDIR/out.0"
  rank 1 sleep 60
  taken
  until_true grep -q wait_for_peers "$BATS_TEST_TMPDIR/out.0"
  grep -q '^State:.*S (' "/proc/$PID/status" # and is no zombie
}

@test "stacks: a node that says nothing has that in its file" {
  OUTLAST_NODE_LIST=n1,n2.example
  ol_sched_on_each() { printf '@n2.example@ stacks of n2\n@n22@ another\n'; }
  taken
  [ "$(text n1)" = 'no answer' ]
  [ "$(text n2)" = ' stacks of n2' ]
}

@test "stacks: what a node says is cut" {
  OUTLAST_NODE_LIST=n1
  ol_sched_on_each() { printf '%s\n' "${10}" >"$SCHED/bytes"; }
  taken
  [ "$(cat "$SCHED/bytes")" = 200000 ]
}

@test "stacks: py-spy is asked where the trainer would find it" {
  mkdir "$BATS_TEST_TMPDIR/bin"
  # shellcheck disable=SC2016 # text of a program
  printf '#!/bin/bash\necho "py-spy $*: Thread 0x7 (active): all_reduce"\n' >"$BATS_TEST_TMPDIR/bin/py-spy"
  chmod +x "$BATS_TEST_TMPDIR/bin/py-spy"
  rank 0 env PATH="$BATS_TEST_TMPDIR/bin:$PATH" sleep 60
  until_true waits "$PID"
  OUTLAST_NODE_LIST=$(cat /proc/sys/kernel/hostname)
  taken
  run -0 text "${OUTLAST_NODE_LIST%%.*}"
  [[ $output == *"py-spy dump --nonblocking --pid $PID: Thread 0x7 (active): all_reduce"* ]]
}

@test "stacks: the flight recorder is told to write, and its file is kept" {
  mkfifo "$BATS_TEST_TMPDIR/flight.5.pipe"
  # shellcheck disable=SC2016 # expanded by the rank
  rank 5 env TORCH_NCCL_DEBUG_INFO_TEMP_FILE="$BATS_TEST_TMPDIR/flight." TORCH_NCCL_DEBUG_INFO_PIPE_FILE="$BATS_TEST_TMPDIR/flight." \
    bash -c 'read -rn 1 told <"$1"; echo "entries $told" >"${1%.pipe}"; sleep 60' _ "$BATS_TEST_TMPDIR/flight.5.pipe"
  until_true grep -qz TORCH_NCCL_DEBUG_INFO_PIPE_FILE "/proc/$PID/environ"
  until_true waits "$PID" # for somebody at the other end of its pipe
  taken
  [ "$(cat "$OUTLAST_RUN_DIR/stacks/7.0.1/flight.5")" = 'entries 1' ]
}

@test "stacks: what the flight recorders say together accuses a node, and nobody asks where there are none" {
  OUTLAST_NODE_LIST=n1,n2
  ol_py_ask() { echo "$*" >>"$SCHED/told" && echo 'behind 3'; }
  ol_sched_on_each() { printf '@n1@== process 7, rank 1: train\n@n2@== process 7, rank 3: train\n'; }
  taken
  [ ! -s "$OUTLAST_STATE/suspect" ]
  [ ! -s "$SCHED/told" ]
  touch "$OUTLAST_RUN_DIR/stacks/7.0.1/flight.3"
  taken
  [ "$(cat "$OUTLAST_STATE/suspect")" = 'n2 behind' ]
  told "20 flight $OUTLAST_RUN_DIR/stacks/7.0.1 --words"
}

@test "stacks: a shared file system that gives no answer leaves them on the node" {
  OUTLAST_NODE_LIST=n1
  ol_sched_on_each() { echo '@n1@ here'; }
  ol_shared() { return 124; }
  taken
  [ "$(cat "$OUTLAST_LOCAL/stacks/7.0.1/n1.txt")" = ' here' ]
}
