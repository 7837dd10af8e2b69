#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  RANK=0 LOCAL_RANK=0 NODE_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
  OUTLAST_STOP_FILE=$BATS_TEST_TMPDIR/stop
  DIR=$BATS_TEST_TMPDIR/checkpoints
}

@test "smoke: a rank's place is checked against its node" {
  run -0 _ol_smoke_ranks
  [[ $output == "smoke: ok rank shim: rank 0 of 2 is local rank 0 of node 0, n1" ]]
  NODE_RANK=1 # whose ranks would be 2 and 3
  run -0 _ol_smoke_ranks
  [[ $output == "smoke: bad rank shim"* ]]
}

@test "smoke: storage is written, read back and removed" {
  run -0 _ol_smoke_storage "$DIR"
  [[ $output == "smoke: ok storage: $DIR on n1: "* ]]
  [ -z "$(entries "$DIR")" ]
  touch "$BATS_TEST_TMPDIR/file"
  run -0 _ol_smoke_storage "$BATS_TEST_TMPDIR/file/x"
  [[ ${lines[-1]} == "smoke: bad storage"* ]]
}

@test "smoke: the master's address must be an IPv4" {
  MASTER_ADDR=fe80::1
  run -0 _ol_smoke_master
  [[ $output == "smoke: bad master: fe80::1 is no IPv4 address" ]]
}

@test "smoke: the other nodes reach what rank 0 listens on" {
  MASTER_PORT=$((20000 + $$ % 10000))
  _ol_smoke_master
  ends_with_the_test "$OL_SMOKE_LISTENER"
  RANK=2 NODE_RANK=1
  run -0 _ol_smoke_master
  [[ $output == "smoke: ok master: n1 reaches 127.0.0.1:$MASTER_PORT" ]]
}

@test "smoke: a job that resumes proves that a node can submit" {
  run -0 _ol_smoke_chain
  [[ $output == "smoke: unknown submit"* ]]
  OUTLAST_RESUME_STEP=20
  _ol_smoke_save "$DIR" 20 120
  run -0 _ol_smoke_chain "$DIR/checkpoint-20"
  [[ ${lines[0]} == "smoke: ok resume: checkpoint 20 is in $DIR/checkpoint-20" ]]
  [[ ${lines[1]} == "smoke: ok submit: job 7 was submitted from a job's node and resumes from checkpoint 20" ]]
  [[ ! $output =~ step\ [0-9] ]] # which would count as one
}

@test "smoke: a checkpoint that does not hold the promised step is bad" {
  OUTLAST_RESUME_STEP=20
  run -0 _ol_smoke_chain "$DIR/checkpoint-20"
  [[ ${lines[0]} == "smoke: bad resume: checkpoint 20 was promised, and $DIR/checkpoint-20 holds none" ]]
  _ol_smoke_save "$DIR" 40 120
  run -0 _ol_smoke_chain "$DIR/checkpoint-40"
  [[ ${lines[0]} == "smoke: bad resume: checkpoint 20 was promised, and $DIR/checkpoint-40 holds 40" ]]
}

@test "smoke: a checkpoint is one that outlast reads as Hugging Face's" {
  _ol_smoke_save "$DIR" 120 120
  run -0 _ol_progress_hf_finished "$DIR/checkpoint-120"
  _ol_smoke_save "$DIR" 20 120
  run -1 _ol_progress_hf_finished "$DIR/checkpoint-20"
}

@test "smoke: told to stop it saves and ends" {
  touch "$OUTLAST_STOP_FILE"
  OUTLAST_RESUME_STEP=41
  run -0 _ol_smoke_train "$DIR" 120
  [ "$output" = 'step 42' ]
  [ -e "$DIR/checkpoint-42/trainer_state.json" ]
}

@test "smoke: it makes the steps that it is told to, and the last one is a checkpoint" {
  run -0 ol_smoke "$DIR" --steps 2 --resume "$DIR/x"
  [[ $output == *$'step 1\nstep 2' ]]
  [ -e "$DIR/checkpoint-2/model.safetensors" ]
}

@test "smoke: without a listener nobody is killed at the end (kill 0 is the whole process group)" {
  touch "$OUTLAST_STOP_FILE"
  MASTER_ADDR=fe80::1
  kill() { echo "killed $*"; }
  run -0 ol_smoke "$DIR"
  [[ $output != *killed* ]]
  [ -e "$DIR/checkpoint-1/trainer_state.json" ]
}
