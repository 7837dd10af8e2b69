#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text of the stand-in; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  owns_the_run
  mkdir -p "$OUTLAST_RUN_DIR/tool/1.0"
  cp -r "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/1.0/"
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n1 n2) OUTLAST_NODE_LIST=n1,n2 OUTLAST_RESUME_STEP='' OUTLAST_RESUME_FROM='' OUTLAST_RESUME=''
  # Each node has a disk of its own; what a test does to them is in the function NODE.
  ol_sched_on_each() {
    local host status=0
    for host in ${2//,/ }; do
      (
        export SLURMD_NODENAME=$host
        disk=$BATS_TEST_TMPDIR/$host
        set -- "${@//"$OUTLAST_LOCAL"/"$disk"}"
        ! declare -F node >/dev/null || node "$host"
        "${@:3}"
      ) || status=1
    done
    return "$status"
  }
}

DURABLE() { printf '%s' "$OUTLAST_RUN_DIR/checkpoints/checkpoint-$1"; }
ON() { printf '%s' "$BATS_TEST_TMPDIR/$1/checkpoints/checkpoint-$2"; }
HELD() { find "$BATS_TEST_TMPDIR/$1/checkpoints" -mindepth 1 -maxdepth 1 -name 'checkpoint-*' -printf '%f%y '; }

# A durable checkpoint with hashes.
hashed() {
  durable "$1"
  rm "$(DURABLE "$1")/MANIFEST.json"
  "$ROOT/.venv/bin/python" -c '
import sys; from pathlib import Path
sys.path.insert(0, sys.argv[1])
from outlast.checkpoint import manifest, verify
top = Path(sys.argv[2])
manifest.publish(top, manifest.Manifest(step=int(sys.argv[3]), list=verify.made(top, "blake2b"), algorithm="blake2b"))' \
    "$ROOT/pyhelpers" "$(DURABLE "$1")" "$1"
}

chosen() { OUTLAST_RESUME_STEP=$1 OUTLAST_RESUME_FROM=$(DURABLE "$1"); }
stages() { status_of ol_stage 2>>"$OUTLAST_STATE/job.log"; }
damage() { printf 'weights of step xx\n' >"$(DURABLE "$1")/model.safetensors"; } # as long as it was

@test "stage: all nodes show the chosen one and no other, and the resume path is the same on all" {
  hashed 20
  chosen 20
  checkpoint 40 "$BATS_TEST_TMPDIR/n2/checkpoints"
  stages
  [ "$status $OUTLAST_RESUME" = "0 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  [ "$(HELD n1)$(HELD n2)" = "checkpoint-20d checkpoint-20d " ]
  diff -r "$(DURABLE 20)" "$(ON n1 20)"
  [ "${OUTLAST_BROUGHT[*]}" = "kept:=0 copied:=4 linked:=0" ]
}

@test "stage: what a survivor has is not copied again" {
  hashed 20
  chosen 20
  checkpoint 20 "$BATS_TEST_TMPDIR/n2/checkpoints"
  stages
  [ "${OUTLAST_BROUGHT[*]}" = "kept:=2 copied:=2 linked:=0" ]
}

@test "stage: without hashes, without Python or without the run's copy of it, Bash does it" {
  durable 20
  chosen 20
  stages
  diff -r "$(DURABLE 20)" "$(ON n2 20)"
  [ "${#OUTLAST_BROUGHT[@]}" = 0 ]
  hashed 40
  chosen 40
  rm -r "$OUTLAST_RUN_DIR/tool"
  OUTLAST_STAGE_IN=own-shards
  stages
  [ "$status $(HELD n1)$(HELD n2)" = "0 checkpoint-40l checkpoint-40l " ]
}

@test "stage: a node that fails is named, and nothing is taken for done" {
  hashed 20
  chosen 20
  node() { [[ $1 != n2 ]] || touch "$BATS_TEST_TMPDIR/n2"; }
  stages
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == "could not put checkpoint 20 on every node"* ]]
  [ -e "$(DURABLE 20)" ]
}

@test "stage: a damaged one that every node reads so goes to quarantine, and people and ledger are told" {
  hashed 20
  hashed 40
  damage 40
  chosen 40
  OUTLAST_MAIL_TO=me OUTLAST_MAIL_COMMAND="cat >'$BATS_TEST_TMPDIR/mail'"
  stages
  [ "$status" = 5 ]
  [ ! -e "$(DURABLE 40)" ]
  grep -q 'checkpoint-40: model.safetensors has another hash' "$OUTLAST_RUN_DIR/quarantine/why.txt"
  [[ $(event quarantined) == *'"step":40,"durable_step":20,"why":"model.safetensors has another hash","by":"outlast"}' ]]
  grep -q 'checkpoint 40 is damaged' "$BATS_TEST_TMPDIR/mail"
  [ -z "$(HELD n1)$(HELD n2)" ]
}

@test "stage: what only one node reads as damaged is the node's fault" {
  hashed 20
  chosen 20
  OUTLAST_STAGE_IN=node0
  node() { # only n1 is asked to copy, and reads other bytes than there are
    if [[ $1 == n1 ]]; then damage 20; else cp "$OUTLAST_CKPT_DIR/checkpoint-20/model.safetensors" "$(DURABLE 20)/"; fi
  }
  stages
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"model.safetensors has another hash as n1 reads it, but not as n2 does" ]]
  [ -e "$(DURABLE 20)" ]
  [ -z "$(event quarantined)" ]
}

@test "stage: what the second node reads so, too, is the file's" {
  hashed 20
  hashed 40
  chosen 40
  damage 40
  OUTLAST_STAGE_IN=node0
  stages
  [ "$status" = 5 ]
  [ ! -e "$(DURABLE 40)" ]
}

@test "stage: the job's end while nodes are at it is not their failure" {
  hashed 20
  chosen 20
  ol_sched_on_each() { exec sleep 60; }
  touch "$OUTLAST_STATE/term"
  stages
  [ "$status" = 2 ]
}

@test "stage: the attempt goes on with the one before, and the sidecar with it" {
  hashed 20
  hashed 40
  damage 40
  echo 40 >"$OUTLAST_STATE/durable_step"
  _ol_attempt_choose
  status_of _ol_attempt_arrange 2>>"$OUTLAST_STATE/job.log"
  [ "$status $OUTLAST_RESUME_STEP" = "0 20" ]
  [ "$(cat "$OUTLAST_STATE/durable_step")" = 20 ]
  [ "$(HELD n1)$(HELD n2)" = "checkpoint-20d checkpoint-20d " ]
}

@test "stage: when none is left it is no fresh start" {
  hashed 20
  damage 20
  past 6 checkpoint_durable step:=20
  _ol_attempt_choose
  status_of _ol_attempt_arrange 2>>"$OUTLAST_STATE/job.log"
  [ "$status" = 4 ]
}
