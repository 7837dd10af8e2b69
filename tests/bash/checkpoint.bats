#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

DURABLE() { printf '%s' "$OUTLAST_RUN_DIR/checkpoints/checkpoint-$1"; }
shown() { find "$OUTLAST_RUN_DIR/checkpoints" -mindepth 1 -maxdepth 1 ! -name '.*' -printf '%f\n' | LC_ALL=C sort | paste -sd' '; }
quiet() { find "$1" -exec touch -d "-$2 seconds" {} +; }
shared() { OUTLAST_STORAGE=shared OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints; }
# A preset that knows no last file, and ranks that have ended like this: RUNNING|'ended T CODE'
unmarked() { OUTLAST_CKPT_COMPLETE='' OUTLAST_CKPT_QUIET_S=100; }
ranks() { printf '%s\n' "$*" >"$OUTLAST_STATE/ranks"; }

@test "checkpoint_complete: prints step and path of those with their last file, by number" {
  checkpoint 900
  checkpoint 1000
  checkpoint 20
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-1100" "$OUTLAST_CKPT_DIR/runs"
  touch "$OUTLAST_CKPT_DIR/checkpoint-x"
  run -0 ol_checkpoint_complete
  [ "${lines[*]%% *}" = "20 900 1000" ]
  [ "${lines[2]#* }" = "$OUTLAST_CKPT_DIR/checkpoint-1000" ]
}

@test "checkpoint_complete: none is no line and no failure" {
  run -0 ol_checkpoint_complete
  [ "$output" = "" ]
}

@test "checkpoint_complete: a number with zeros in front is decimal" {
  OUTLAST_CKPT_PREFIX=step-
  mkdir "$OUTLAST_CKPT_DIR/step-0000090"
  touch "$OUTLAST_CKPT_DIR/step-0000090/trainer_state.json"
  run -0 ol_checkpoint_complete
  [ "${output%% *}" = 90 ]
}

@test "checkpoint_complete: a folder's name may have blanks and stars" {
  OUTLAST_CKPT_DIR="$BATS_TEST_TMPDIR/my run [1] *"
  checkpoint 20
  run -0 ol_checkpoint_complete
  [ "$output" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
}

@test "checkpoint_complete: what changed within QUIET_S is not complete yet" {
  checkpoint 20
  checkpoint 40
  quiet "$OUTLAST_CKPT_DIR/checkpoint-20" 200
  run -0 ol_checkpoint_complete 100
  [ "${lines[*]%% *}" = 20 ]
}

@test "checkpoint_complete: without a last file, quiet under running ranks is the proof" {
  unmarked
  ranks running
  checkpoint 20
  checkpoint 40
  quiet "$OUTLAST_CKPT_DIR/checkpoint-20" 200
  run -0 ol_checkpoint_complete
  [ "${lines[*]%% *}" = 20 ]
}

@test "checkpoint_complete: without a last file, what killed ranks were writing never becomes complete" {
  unmarked
  checkpoint 20
  checkpoint 40
  quiet "$OUTLAST_CKPT_DIR/checkpoint-20" 1500
  quiet "$OUTLAST_CKPT_DIR/checkpoint-40" 1000
  ranks ended $(($(now) - 995)) 137
  run -0 ol_checkpoint_complete
  [ "${lines[*]%% *}" = 20 ]
  run -0 ol_checkpoint_complete 0
  [ "${lines[*]%% *}" = 20 ]
}

@test "checkpoint_complete: without a last file, ranks that ended with 0 have written all" {
  unmarked
  checkpoint 40
  ranks ended "$(now)" 0
  run -0 ol_checkpoint_complete 0
  [ "${lines[*]%% *}" = 40 ]
}

@test "checkpoint_complete: without a last file, nothing is complete before ranks of ours have run" {
  unmarked
  shared
  checkpoint 40
  quiet "$OUTLAST_CKPT_DIR/checkpoint-40" 1000
  run -0 ol_checkpoint_complete
  [ "$output" = "" ]
}

@test "checkpoint_is_written: a folder without its last file is one" {
  checkpoint 20
  run -1 ol_checkpoint_is_written
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  run -0 ol_checkpoint_is_written
  OUTLAST_CKPT_COMPLETE=''
  run -1 ol_checkpoint_is_written
}

@test "checkpoint_keep: copies whole, manifest last, and says so in the ledger" {
  owns_the_run
  checkpoint 20
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-20/deep"
  printf 'x' >"$OUTLAST_CKPT_DIR/checkpoint-20/deep/b c"
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 0 ]
  diff -r -x MANIFEST.json "$OUTLAST_CKPT_DIR/checkpoint-20" "$(DURABLE 20)"
  "$ROOT/.venv/bin/python" -c 'import json, sys; m = json.load(open(sys.argv[1])); assert (m["step"], m["files"], len(m["list"])) == (20, 3, 3), m' "$(DURABLE 20)/MANIFEST.json"
  [[ $(event checkpoint_durable) == *'"step":20,"bytes":'* ]]
  [ "$(cat "$OUTLAST_STATE/durable_step")" = 20 ]
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-20 ]
  [ -z "$(find "$OUTLAST_STATE" -name 'aside*' -o -name 'manifest*')" ]
}

@test "checkpoint_keep: the manifest tells what made its checkpoint" {
  owns_the_run
  checkpoint 20
  printf '%040d 2\n' 7 >"$OUTLAST_STATE/sources"
  echo 'torch=2.7.1' >"$OUTLAST_STATE/versions"
  printf '3 n1,n2\n/runs/"old"/checkpoint-10\n' >"$OUTLAST_STATE/attempt"
  ol_checkpoint_attempt
  ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  PYTHONPATH=$ROOT/pyhelpers "$ROOT/.venv/bin/python" -c 'import sys; from pathlib import Path; from outlast.checkpoint import manifest
m = manifest.read(Path(sys.argv[1])); found = (m.attempt, m.hosts, m.world_size, m.commit[-2:], m.dirty, m.parent, m.versions)
assert found == (3, ("n1",), 2, "07", True, "/runs/\"old\"/checkpoint-10", {"outlast": "1.0", "torch": "2.7.1"}), found' "$(DURABLE 20)"
}

@test "checkpoint_keep: what is not known of its making is said to be unknown" {
  owns_the_run
  checkpoint 20
  ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [[ $(head -n 1 "$(DURABLE 20)/MANIFEST.json") == *'"commit":"","dirty":null,"parent":"","hosts":["n1"],'* ]]
}

@test "checkpoint_keep: hostile names of files are copied and counted" {
  owns_the_run
  checkpoint 20
  for name in $'two\nli nes' ' blank ' '"quote"' 'back\slash' '-dash' "\$(id)"; do
    touch "$OUTLAST_CKPT_DIR/checkpoint-20/$name"
  done
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 0 ]
  run -0 ol_checkpoint_durable
  [ "${output%% *}" = 20 ]
  "$ROOT/.venv/bin/python" -c 'import json, sys; m = json.load(open(sys.argv[1])); assert (m["files"], len(m["list"])) == (8, 8), m' "$(DURABLE 20)/MANIFEST.json"
}

@test "checkpoint_keep: what the trainer prunes during the copy is not offered as whole" {
  owns_the_run
  checkpoint 20
  cp() { # the trainer's rmtree is as far as this when the copy begins
    [[ $1 != -al ]] || rm -f "$2/model.safetensors"
    command cp "$@"
  }
  export -f cp
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 1 ]
  [ ! -e "$(DURABLE 20)" ]
}

@test "checkpoint_keep: a copy that breaks off at any command leaves the older ones offered, and works the next time" {
  local command
  durable 20
  checkpoint 40
  for command in cp sync find mv; do
    eval "$command() { return 1; }"
    export -f "${command?}"
    status_of ol_checkpoint_keep 40 "$OUTLAST_CKPT_DIR/checkpoint-40" 2>/dev/null
    [ "$status" != 0 ]
    unset -f "$command"
    run -0 ol_checkpoint_durable
    [ "${output%% *}" = 20 ]
  done
  status_of ol_checkpoint_keep 40 "$OUTLAST_CKPT_DIR/checkpoint-40" 2>/dev/null
  run -0 ol_checkpoint_durable
  [ "${output%% *}" = 40 ]
}

@test "checkpoint_keep: a job that lost the run publishes nothing" {
  owns_the_run
  checkpoint 20
  touch "$OUTLAST_RUN_DIR/lease/000004"
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 3 ]
  [ ! -e "$(DURABLE 20)" ]
}

@test "checkpoint_keep: a lease that cannot be looked at is not a lost one" {
  owns_the_run
  checkpoint 20
  find() { return 1; }
  export -f find
  mkdir "$OUTLAST_STATE/aside"
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 1 ]
}

@test "checkpoint_keep: takes the place of a broken one of the same step" {
  durable 20
  rm "$(DURABLE 20)/model.safetensors"
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 0 ]
  [ -e "$(DURABLE 20)/model.safetensors" ]
}

@test "checkpoint_keep: on shared storage only the manifest is added" {
  shared
  checkpoint 20
  status_of ol_checkpoint_keep 20 "$(DURABLE 20)" 2>/dev/null
  [ "$status" = 0 ]
  run -0 ol_checkpoint_durable
  [ "$output" = "20 $(DURABLE 20)" ]
}

@test "checkpoint: a file that the trainer wrote is copied, offered and counted like a folder" {
  OUTLAST_CKPT_PREFIX=step- OUTLAST_CKPT_KEEP=1
  owns_the_run
  local step
  for step in 10 20 40; do
    echo "weights $step" >"$OUTLAST_CKPT_DIR/step-$step.ckpt"
    status_of ol_checkpoint_keep "$step" "$OUTLAST_CKPT_DIR/step-$step.ckpt" 2>/dev/null
    [ "$status" = 0 ]
  done
  ol_retention_prune
  run -0 ol_checkpoint_durable
  [ "$output" = "40 $OUTLAST_RUN_DIR/checkpoints/step-40.ckpt" ]
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = "step-20.ckpt step-40.ckpt" ]
  ol_checkpoint_arrange "${output#* }" "$OUTLAST_CKPT_DIR" step- all
  [ "$(cat "$OUTLAST_CKPT_DIR/step-40.ckpt")" = "weights 40" ]
}

@test "checkpoint: on shared storage a file has its manifest beside it, and the trainer's folder shows no more" {
  shared
  OUTLAST_CKPT_PREFIX=step- OUTLAST_CKPT_KEEP=1
  local step
  for step in 10 20 40; do
    echo "weights $step" >"$OUTLAST_CKPT_DIR/step-$step.ckpt"
    status_of ol_checkpoint_keep "$step" "$OUTLAST_CKPT_DIR/step-$step.ckpt" 2>/dev/null
    [ "$status" = 0 ]
  done
  ol_retention_prune
  touch "$OUTLAST_CKPT_DIR/step-60.ckpt"
  ol_checkpoint_drop_torn
  [ "$(shown)" = "step-20.ckpt step-40.ckpt" ]
  run -0 ol_checkpoint_durable
  [ "$output" = "40 $OUTLAST_CKPT_DIR/step-40.ckpt" ]
  echo more >>"$OUTLAST_CKPT_DIR/step-40.ckpt"
  echo more >>"$OUTLAST_CKPT_DIR/step-20.ckpt"
  run -1 ol_checkpoint_durable
  [ -z "$(entries "$OUTLAST_CKPT_DIR")" ]
}

@test "checkpoint_durable: the newest whole one by number; 1 when there is none" {
  run -1 ol_checkpoint_durable
  durable 90
  durable 1000
  mkdir "$(DURABLE 2000)"
  run -0 ol_checkpoint_durable
  [ "$output" = "1000 $(DURABLE 1000)" ]
}

@test "checkpoint_durable: one that does not add up goes to quarantine with the reason, the one before is taken" {
  durable 20
  durable 40
  printf more >>"$(DURABLE 40)/model.safetensors"
  run -0 ol_checkpoint_durable
  [ "${output%% *}" = 20 ]
  [ ! -e "$(DURABLE 40)" ]
  grep -q 'checkpoint-40: MANIFEST.json says 2 ' "$OUTLAST_RUN_DIR/quarantine/why.txt"
  [ -n "$(find "$OUTLAST_RUN_DIR/quarantine" -path '*/checkpoint-40.*/trainer_state.json')" ]
}

@test "checkpoint_durable: a file that cannot be read is no answer, and nobody is put into quarantine" {
  durable 20
  durable 40
  # As at an I/O error: it prints what it could read.
  find() {
    command find "$@"
    return 1
  }
  export -f find
  run -2 ol_checkpoint_durable
  [ -e "$(DURABLE 40)" ]
}

@test "checkpoint_durable: a manifest that cannot be read is no answer" {
  durable 20
  sed() { return 4; }
  export -f sed
  run -2 ol_checkpoint_durable
  [ -e "$(DURABLE 20)" ]
}

@test "checkpoint_durable: an answer that got lost on this node is not 'none'" {
  durable 20
  ol_bounded_print() { "${@:2}" >/dev/null; }
  run -2 ol_checkpoint_durable
}

@test "checkpoint_durable: a folder that is not there, or does not answer, is no answer" {
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  run -2 ol_checkpoint_durable
}

@test "checkpoint_drop_torn: what never got complete goes to quarantine, the rest stays" {
  shared
  checkpoint 20
  ol_checkpoint_keep 20 "$(DURABLE 20)" 2>/dev/null
  mkdir "$(DURABLE 40)"
  ol_checkpoint_drop_torn
  [ "$(ls "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-20 ]
  [ -n "$(find "$OUTLAST_RUN_DIR/quarantine" -name 'checkpoint-40.*')" ]
}

@test "checkpoint_arrange: the folder holds the wanted one and no other" {
  local dir=$BATS_TEST_TMPDIR/other/checkpoints
  durable 20
  checkpoint 40 "$dir"
  mkdir "$dir/checkpoint-60"
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- all
  [ "$(ls "$dir")" = checkpoint-20 ]
  diff -r "$(DURABLE 20)" "$dir/checkpoint-20"
}

@test "checkpoint_arrange: an older one of the same step that differs is replaced" {
  local dir=$BATS_TEST_TMPDIR/other/checkpoints
  durable 20
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- all
  printf '{"step":20}\n' >"$dir/checkpoint-20/MANIFEST.json"
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- all
  diff -r "$(DURABLE 20)" "$dir/checkpoint-20"
}

@test "checkpoint_arrange: the same one is not copied again" {
  local dir=$BATS_TEST_TMPDIR/other/checkpoints
  durable 20
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- all
  cp() { return 1; }
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- all
}

@test "checkpoint_arrange: a fresh start sees no checkpoint" {
  checkpoint 40
  ol_checkpoint_arrange '' "$OUTLAST_CKPT_DIR" checkpoint- all
  [ -z "$(ls "$OUTLAST_CKPT_DIR")" ]
}

@test "checkpoint_arrange: a copy that breaks off is not in the trainer's sight, and is a failure" {
  durable 20
  cp() {
    mkdir "$3"
    return 1
  }
  status_of ol_checkpoint_arrange "$(DURABLE 20)" "$BATS_TEST_TMPDIR/other" checkpoint- all
  [ "$status" != 0 ]
  [ -z "$(ls "$BATS_TEST_TMPDIR/other")" ]
}

@test "checkpoint_arrange: with stage_in none the folder shows the durable one itself, and no other" {
  local dir=$BATS_TEST_TMPDIR/other/checkpoints
  durable 20
  checkpoint 20 "$dir"
  checkpoint 40 "$dir"
  ln -s /nowhere "$dir/checkpoint-60"
  ol_checkpoint_arrange "$(DURABLE 20)" "$dir" checkpoint- none
  [ "$(ls "$dir")" = checkpoint-20 ]
  [ "$(readlink "$dir/checkpoint-20")" = "$(DURABLE 20)" ]
}

@test "checkpoint_arrange: a link that another stage_in has left becomes a copy" {
  durable 20
  ol_checkpoint_arrange "$(DURABLE 20)" "$OUTLAST_CKPT_DIR" checkpoint- none
  ol_checkpoint_arrange "$(DURABLE 20)" "$OUTLAST_CKPT_DIR" checkpoint- all
  [ ! -L "$OUTLAST_CKPT_DIR/checkpoint-20" ]
  diff -r "$(DURABLE 20)" "$OUTLAST_CKPT_DIR/checkpoint-20"
}

@test "checkpoint: on a node nobody follows a link to the shared file system, and what it names counts as complete" {
  ln -s /nowhere "$OUTLAST_CKPT_DIR/checkpoint-20"
  run -0 ol_checkpoint_complete
  [ "$output" = "20 $OUTLAST_CKPT_DIR/checkpoint-20" ]
  run -1 ol_checkpoint_is_written
}

@test "checkpoint_keep: the parts of one node alone are never published" {
  owns_the_run
  OUTLAST_SHARDED=1 OUTLAST_NODES=2
  checkpoint 20
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 1 ]
  [ -z "$(entries "$OUTLAST_RUN_DIR/checkpoints")" ]
  OUTLAST_NODES=1
  status_of ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  [ "$status" = 0 ]
}
