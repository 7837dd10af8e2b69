#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_STORAGE=shared OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints
  OUTLAST_CKPT_QUIET_S=30 OUTLAST_SHARED_LIMIT_S=20
  ASKED=$BATS_TEST_TMPDIR/asked
  : >"$ASKED"
  echo '1 n1' >"$OUTLAST_STATE/attempt"
}

# What Python answers to a question on that step's checkpoint; nothing: no answer.
judge() {
  ANSWER=$1
  ol_py_ask() {
    echo "${*:2}" >>"$ASKED"
    [[ -n $ANSWER ]] && printf '%s\n' "$ANSWER"
  }
}
asked() { wc -l <"$ASKED"; }
ended() { echo "ended $(($(now) - $1)) $2" >"$OUTLAST_STATE/ranks"; }
checkpoint() { # STEP AGE_S
  local path=$OUTLAST_CKPT_DIR/checkpoint-$1
  mkdir -p "$path"
  printf '\2\0\0\0\0\0\0\0{}' >"$path/model.safetensors" # a header, and no tensors
  echo '{}' >"$path/trainer_state.json"
  touch -d "@$(($(now) - $2))" "$path"/* "$path"
}
complete() { ol_checkpoint_complete "$@" 2>>"$OUTLAST_STATE/job.log"; }

@test "whole: on shared storage a last file is not enough: what the judge calls torn is not complete, and the ledger knows why" {
  checkpoint 20 5
  ended 1 137
  judge $'torn\trng_state_1.pth (rank 1) is missing'
  [ -z "$(complete 0)" ]
  [ -z "$(complete 0)" ]
  [ "$(asked)" = 1 ]
  [[ $(event checkpoint_torn) == *'"step":20,"why":"rng_state_1.pth (rank 1) is missing"'* ]]
  [ "$(grep -c checkpoint_torn "$OUTLAST_STATE/events.jsonl")" = 1 ]
}

@test "whole: what the judge calls complete is, whatever had just changed when its ranks were killed" {
  checkpoint 20 5
  ended 1 137
  judge $'complete\tall 3 files are there'
  [ "$(complete 0)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  [ "$(complete 0)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  [ "$(asked)" = 1 ]
}

@test "whole: the judge knows the launch: who writes, until when, how many" {
  checkpoint 20 60
  judge $'complete\t'
  echo running >"$OUTLAST_STATE/ranks"
  complete >/dev/null
  ended 7 0
  complete 0 >/dev/null
  ended 7 9
  complete 0 >/dev/null
  rm "$OUTLAST_STATE/ranks" "$OUTLAST_STATE/attempt"
  complete >/dev/null
  local path=$OUTLAST_CKPT_DIR/checkpoint-20
  [[ $(sed 's/ [0-9]\{10\} / T /' "$ASKED") == "sidecar judge $path checkpoint- trainer_state.json 30 running 0 2
sidecar judge $path checkpoint- trainer_state.json 30 done T 2
sidecar judge $path checkpoint- trainer_state.json 30 gone T 2
sidecar judge $path checkpoint- trainer_state.json 30 gone 0 0" ]]
}

@test "whole: while ranks run the judge is asked again, and says nothing to the ledger" {
  checkpoint 20 60
  echo running >"$OUTLAST_STATE/ranks"
  judge $'writing\tit changed 3 s ago'
  [ -z "$(complete)" ]
  judge $'complete\t'
  [ -n "$(complete)" ]
  [ ! -e "$OUTLAST_STATE/torn.20" ]
}

@test "whole: without an answer, rest before the ranks were killed is the proof" {
  checkpoint 20 60
  checkpoint 40 5
  judge ''
  ended 1 137
  [ "$(complete 0)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  ended 1 0
  [ "$(complete 0 | wc -l)" = 2 ]
  echo running >"$OUTLAST_STATE/ranks"
  [ "$(complete)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
}

@test "whole: what is not newer than the newest durable one is not judged" {
  checkpoint 20 60
  echo 20 >"$OUTLAST_STATE/durable_step"
  judge $'torn\tnever'
  [ "$(complete 0)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  [ "$(asked)" = 0 ]
}

@test "whole: after TERM the supervisor asks nobody, the sidecar not for long, and not for what ended well" {
  checkpoint 20 60
  judge $'torn\tnever'
  : >"$OUTLAST_STATE/term"
  ended 10 0
  [ -n "$(complete 0)" ]
  ended 20 137
  [ -n "$(complete 0)" ]
  OL_SIDECAR_LOOPS=1
  ended 10 0
  [ -n "$(complete 0)" ]
  [ "$(asked)" = 0 ]
  ended 20 137
  [ -z "$(complete 0)" ]
  [ "$(asked)" = 1 ]
  ol_py_ask() { echo "$1" >"$ASKED" && printf 'complete\t\n'; }
  ended 30 137
  complete 0 >/dev/null
  [ "$(cat "$ASKED")" = 5 ]
}

# As a run has its own copy of the helpers.
with_python() {
  mkdir -p "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION"
  ln -s "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast"
}

@test "whole: a rank that was killed before it wrote its random state leaves no complete checkpoint behind" {
  with_python
  checkpoint 20 60
  checkpoint 40 5
  local step
  for step in 20 40; do
    echo '{"global_step": '"$step"'}' >"$OUTLAST_CKPT_DIR/checkpoint-$step/trainer_state.json"
    : >"$OUTLAST_CKPT_DIR/checkpoint-$step/config.json"
    echo random >"$OUTLAST_CKPT_DIR/checkpoint-$step/rng_state_0.pth"
  done
  echo random >"$OUTLAST_CKPT_DIR/checkpoint-20/rng_state_1.pth"
  touch -d "@$(($(now) - 60))" "$OUTLAST_CKPT_DIR"/checkpoint-20/*
  ended 1 137
  [ "$(complete 0)" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  grep -q 'rng_state_1.pth (rank 1) is missing' "$OUTLAST_STATE/job.log"
  ol_sidecar_round 0 2>>"$OUTLAST_STATE/job.log"
  [ -e "$OUTLAST_CKPT_DIR/checkpoint-20/MANIFEST.json" ]
  [ ! -e "$OUTLAST_CKPT_DIR/checkpoint-40/MANIFEST.json" ]
}

@test "whole: where Bash copies from a node, the node's own ranks are asked for" {
  OUTLAST_STORAGE=local OUTLAST_NODES=2 OUTLAST_CKPT_DIR=$OUTLAST_LOCAL/checkpoints
  checkpoint 20 60
  ended 7 9
  judge $'torn\trng_state_1.pth (rank 1) is missing'
  ol_sidecar_round 0 2>>"$OUTLAST_STATE/job.log"
  [[ $(cat "$ASKED") == *" gone "*" 2" ]]
  [ ! -e "$OUTLAST_RUN_DIR/checkpoints/checkpoint-20" ]
}
