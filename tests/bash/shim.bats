#!/usr/bin/env bats
# shellcheck disable=SC2016 # expanded by the rank
load job

# The shim as a launcher starts it: rank NUMBER TEXT, TEXT being the trainer. In the background: $! is the shim.
shim() {
  exec env "${LAUNCHERS_NAME:-SLURM_PROCID}=$1" WORLD_SIZE=2 bash -c "$(ol_shim_text)" outlast-rank bash -c "$2"
}
said() { grep -q -- "$1" "$BATS_TEST_TMPDIR/err"; }
# Start it, and wait until its trainer says that it is ready.
started() { # RANK TEXT
  shim "$1" "$2" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
  SHIM=$!
  ends_with_the_test "$SHIM"
  until_true grep -q ready "$BATS_TEST_TMPDIR/out"
}
ended() { status_of wait "$SHIM"; }

@test "shim: gives torch its variables from those of Slurm" {
  run -0 env SLURM_PROCID=9 SLURM_NTASKS=16 SLURM_NODEID=1 SLURM_LOCALID=1 OUTLAST_RANKS_PER_NODE=8 \
    bash -c "$(ol_shim_text)" outlast-rank bash -c 'echo $RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE'
  [ "$output" = "9 16 1 1 8" ]
}

@test "shim: from those of PALS, which does not tell how many ranks there are, and of MPICH" {
  words=(bash -c "$(ol_shim_text)" outlast-rank bash -c 'echo $RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE')
  run -0 env PALS_RANKID=14 PALS_NODEID=1 PALS_LOCAL_RANKID=2 WORLD_SIZE=24 OUTLAST_RANKS_PER_NODE=12 "${words[@]}"
  [ "$output" = "14 24 1 2 12" ]
  run -0 env PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 WORLD_SIZE=99 OUTLAST_RANKS_PER_NODE=2 "${words[@]}"
  [ "$output" = "3 4 1 1 2" ]
}

@test "shim: a rank that sees one device calls it number 0" {
  run -0 env RANK=3 LOCAL_RANK=3 OUTLAST_RANKS_PER_NODE=8 ROCR_VISIBLE_DEVICES=5 \
    bash -c "$(ol_shim_text)" outlast-rank bash -c 'echo $LOCAL_RANK'
  [ "$output" = 0 ]
  run -0 env RANK=3 LOCAL_RANK=3 OUTLAST_RANKS_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1,2,3 \
    bash -c "$(ol_shim_text)" outlast-rank bash -c 'echo $LOCAL_RANK'
  [ "$output" = 3 ]
}

@test "shim: the words of the command stay as they are" {
  run -0 env RANK=1 bash -c "$(ol_shim_text)" outlast-rank printf '<%s>' 'a b' '' '*' '$(id)' "it's"
  [ "$output" = "<a b><><*><\$(id)><it's>" ]
}

@test "shim: rank 0 says that it started, the others do not" {
  run -0 shim 0 true
  [[ $output == "outlast: rank 0 of 2 on "*" started" ]]
  run -0 shim 1 true
  [ "$output" = "" ]
}

@test "shim: passes the trainer's code on, and says who ended badly and when" {
  run -3 shim 1 'exit 3'
  [[ $output =~ ^outlast:\ rank\ 1\ on\ [^\ ]+\ ended\ with\ code\ 3\ at\ [0-9]+$ ]]
  run -139 shim 1 'kill -SEGV $$'
  [[ $output == *"ended with signal SEGV at "* ]]
}

@test "shim: whatever the code, the watch can read the line" {
  local code
  for code in 1 2 126 127 128 129 137 160 163 192 200 255; do
    run "-$code" shim 1 "exit $code"
    OUTLAST_LOG=$BATS_TEST_TMPDIR/log
    printf '%s\n' "$output" >"$OUTLAST_SAID"
    [ -n "$(ol_watch_first_death)" ]
  done
}

@test "shim: a command that is not there is 127" {
  run -127 env RANK=1 bash -c "$(ol_shim_text)" outlast-rank no-such-trainer
  [[ $output == *"ended with code 127 at "* ]]
}

@test "shim: our stop (USR2) reaches the trainer as TERM, once, however often it comes" {
  started 0 'trap "echo term" TERM; trap "echo usr2" USR2; echo ready; while [[ ! -e '"$BATS_TEST_TMPDIR"'/enough ]]; do sleep 0.05; done'
  kill -USR2 "$SHIM"
  until_true grep -q term "$BATS_TEST_TMPDIR/out"
  kill -USR2 "$SHIM"
  kill -TERM "$SHIM"
  until_true said 'got TERM from outside'
  touch "$BATS_TEST_TMPDIR/enough"
  ended
  [ "$status" = 0 ]
  [ "$(tr '\n' ' ' <"$BATS_TEST_TMPDIR/out")" = "ready term " ]
}

@test "shim: a TERM from outside is passed on, and rank 0 says so" {
  started 0 'trap "echo saved; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
  kill -TERM "$SHIM"
  ended
  [ "$status" = 0 ]
  grep -q saved "$BATS_TEST_TMPDIR/out"
  said 'outlast: rank 0 got TERM from outside at [0-9]*$'
}

@test "shim: under mpiexec, which ends ranks itself, a TERM is passed on and says nothing" {
  local name
  for name in PALS_RANKID PMI_RANK; do
    rm -f "$BATS_TEST_TMPDIR/out"
    LAUNCHERS_NAME=$name started 0 'trap "echo saved; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    kill -TERM "$SHIM"
    ended
    [ "$status" = 0 ]
    grep -q saved "$BATS_TEST_TMPDIR/out"
    run ! said 'got TERM from outside'
  done
}

@test "shim: a save signal that arrives twice within milliseconds reaches the trainer once" {
  started 1 'trap "echo save" USR1; echo ready; while [[ ! -e '"$BATS_TEST_TMPDIR"'/enough ]]; do sleep 0.05; done'
  kill -USR1 "$SHIM"
  until_true grep -q save "$BATS_TEST_TMPDIR/out"
  kill -USR1 "$SHIM"
  sleep 0.1
  touch "$BATS_TEST_TMPDIR/enough"
  ended
  [ "$(grep -c save "$BATS_TEST_TMPDIR/out")" = 1 ]
}

@test "shim: a signal that comes while the trainer is being started is not lost" {
  local turn
  # The trainer itself sends it, at a moment when the shim may not have noted its process number.
  for turn in {1..30}; do
    run -0 shim 1 'trap "echo save; exit 0" USR1; kill -USR1 $PPID; for ((i = 0; i < 200; i++)); do sleep 0.05; done; exit 9'
    [ "$output" = save ] || return
  done
}

@test "shim: a signal does not make it lose the trainer's code" {
  started 1 'trap "" USR1; echo ready; while [[ ! -e '"$BATS_TEST_TMPDIR"'/enough ]]; do sleep 0.05; done; exit 42'
  kill -USR1 "$SHIM"
  touch "$BATS_TEST_TMPDIR/enough"
  ended
  [ "$status" = 42 ]
}

@test "shim_text: takes functions of ours along" {
  ol_mine() { echo "mine $1"; }
  run -0 env RANK=1 bash -c "$(ol_shim_text ol_mine)" outlast-rank ol_mine 1
  [ "$output" = "mine 1" ]
}
