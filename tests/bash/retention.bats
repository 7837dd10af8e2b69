#!/usr/bin/env bats
# lib/retention.sh: which durable checkpoints stay
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

DURABLE() { printf '%s' "$OUTLAST_RUN_DIR/checkpoints/checkpoint-$1"; }
shown() { find "$OUTLAST_RUN_DIR/checkpoints" -mindepth 1 -maxdepth 1 ! -name '.*' -printf '%f\n' | LC_ALL=C sort | paste -sd' '; }

@test "retention_prune: the newest by number stay, and what has no manifest is never touched" {
  local step
  for step in 80 90 100 110; do durable "$step"; done
  mkdir "$(DURABLE 10)" "$(DURABLE 120)" "$OUTLAST_RUN_DIR/checkpoints/mine"
  ol_retention_prune
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = "checkpoint-10 checkpoint-100 checkpoint-110 checkpoint-120 checkpoint-90 mine" ]
}

@test "retention_prune: what a person has pinned stays, every so many-th, and what Python kept" {
  for step in 20 40 60 80 90 100; do durable "$step"; done
  touch "$OUTLAST_RUN_DIR/checkpoints/.checkpoint-20.pinned"
  echo checkpoint-60 >"$OUTLAST_RUN_DIR/checkpoints/.kept"
  OUTLAST_CKPT_KEEP=2 OUTLAST_CKPT_KEEP_EVERY=40 ol_retention_prune
  [ "$(shown)" = "checkpoint-100 checkpoint-20 checkpoint-40 checkpoint-60 checkpoint-80 checkpoint-90" ]
  echo other >"$OUTLAST_RUN_DIR/checkpoints/.kept"
  OUTLAST_CKPT_KEEP=1 OUTLAST_CKPT_KEEP_EVERY=0 ol_retention_prune
  [ "$(shown)" = "checkpoint-100 checkpoint-20 checkpoint-90" ]
}

# The run's own copy of outlast, which is this checkout's.
python_works() {
  mkdir -p "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION"
  ln -s "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast"
  OUTLAST_PYTHON=$ROOT/.venv/bin/python
}

scored() { # STEP LOSS
  printf '{"global_step":%d,"log_history":[{"step":%d,"eval_loss":%s}]}\n' "$1" "$1" "$2" >"$OUTLAST_CKPT_DIR/checkpoint-$1/trainer_state.json"
}

@test "retention_prune: with Python the best by loss stays, too, and without it stays then" {
  local step
  python_works
  for step in 20 40 60 80 100; do
    checkpoint "$step"
    scored "$step" "$((step == 40 ? 1 : 3)).5"
    owns_the_run
    status_of ol_checkpoint_keep "$step" "$OUTLAST_CKPT_DIR/checkpoint-$step" 2>/dev/null
  done
  OUTLAST_CKPT_KEEP=2 ol_retention_prune
  [ "$(shown)" = "checkpoint-100 checkpoint-40 checkpoint-80" ]
  OUTLAST_PYTHON=false
  OUTLAST_CKPT_KEEP=1 ol_retention_prune 2>/dev/null
  [ "$(shown)" = "checkpoint-100 checkpoint-40 checkpoint-80" ]
}

# Names of what waits, without times.
waiting() { entries "$OUTLAST_RUN_DIR/checkpoints" | tr ' ' '\n' | sed -nE 's/^\.removed-(.*)\.[0-9]+(\.job)?$/\1\2/p' | sort | paste -sd' '; }

@test "retention_prune: what is not kept waits for the end of its grace, and two do at most" {
  local python step
  python_works
  OUTLAST_CKPT_KEEP=1 OUTLAST_CKPT_GRACE_S=3600
  for python in false "$OUTLAST_PYTHON"; do
    OUTLAST_PYTHON=$python
    for step in 20 30 40 60; do durable "$step"; done
    mv "$(DURABLE 20)" "$OUTLAST_RUN_DIR/checkpoints/.removed-checkpoint-20.9999999999" # by a person
    ol_retention_prune 2>/dev/null
    [ "$(waiting)" = "checkpoint-20 checkpoint-30.job" ]
    for step in 80 90; do
      durable "$step"
      ol_retention_prune 2>/dev/null
    done
    [ "$(waiting)" = "checkpoint-20 checkpoint-40.job checkpoint-60.job" ]
    durable 95
    OUTLAST_CKPT_GRACE_S=0 ol_retention_prune 2>/dev/null
    [ "$(waiting)" = "checkpoint-20 checkpoint-40.job checkpoint-60.job" ]
    [ "$(shown)" = "checkpoint-90 checkpoint-95" ]
    ol_retention_empty
    [ "$(waiting)" = checkpoint-20 ]
    rm -r "${OUTLAST_RUN_DIR:?}"/checkpoints/{checkpoint-*,.removed-*} "${OUTLAST_CKPT_DIR:?}"/*
  done
}

@test "retention_prune: a job that lost the run removes nothing" {
  python_works
  for step in 20 40 60; do durable "$step"; done
  touch "$OUTLAST_RUN_DIR/lease/000004"
  OUTLAST_CKPT_KEEP=1 run -3 ol_retention_prune
  [ "$(shown)" = "checkpoint-20 checkpoint-40 checkpoint-60" ]
}

@test "retention_prune: clears up what a killed removal or copy left" {
  mkdir "$OUTLAST_RUN_DIR/checkpoints/.trash-checkpoint-5" "$OUTLAST_RUN_DIR/checkpoints/.incoming-checkpoint-7"
  ol_retention_prune
  [ -z "$(entries "$OUTLAST_RUN_DIR/checkpoints")" ]
}
