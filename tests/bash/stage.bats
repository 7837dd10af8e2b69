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

@test "stage: the hosts of a launch go to a node in as many words as they need" {
  local number
  OUTLAST_NODE_LIST=x0000c0s0b0n0.hsn.cm.aurora.alcf.anl.gov
  for ((number = 1; number < 6000; number++)); do
    printf -v OUTLAST_NODE_LIST '%s,x%04dc0s0b0n0.hsn.cm.aurora.alcf.anl.gov' "$OUTLAST_NODE_LIST" "$number"
  done
  hashed 20
  chosen 20
  ol_sched_on_each() {
    printf '%s\n' "${@:3}" | awk '{ if (length($0) > most) most = length($0) } END { print most > "'"$BATS_TEST_TMPDIR/most"'" }'
    SLURMD_NODENAME=x5999c0s0b0n0 "${@:3}"
  }
  OUTLAST_STAGE_IN=node0
  rm -rf "$OUTLAST_CKPT_DIR/checkpoint-20"
  stages
  [ "$status ${OUTLAST_BROUGHT[*]}" = "0 kept:=0 copied:=0 linked:=2" ]
  (("$(<"$BATS_TEST_TMPDIR/most")" <= 100000))
  [ "$(
    IFS=,
    echo "${OL_STAGE_WORDS[*]}"
  )" = "$OUTLAST_NODE_LIST" ]
}

@test "stage: a node knows its own name, whatever one a launcher hands on" {
  hashed 20
  chosen 20
  ol_sched_on_each() { HOSTNAME=n1 "${@:3}"; }
  stages
  [ "$(cut -f 2 "$OUTLAST_STATE/stage.log")" = "$(cat /proc/sys/kernel/hostname)" ]
}

@test "stage: what a survivor has is not copied again" {
  hashed 20
  chosen 20
  checkpoint 20 "$BATS_TEST_TMPDIR/n2/checkpoints"
  stages
  [ "${OUTLAST_BROUGHT[*]}" = "kept:=2 copied:=2 linked:=0" ]
}

@test "stage: what is put out of sight is kept on a disk, and not in memory" {
  hashed 20
  chosen 20
  checkpoint 40 "$BATS_TEST_TMPDIR/n2/checkpoints"
  stages
  [ -d "$BATS_TEST_TMPDIR/n2/checkpoints/.unused" ]
  OUTLAST_CKPT_MEMORY_GIB=1
  stages
  [ "$(entries "$BATS_TEST_TMPDIR/n2/checkpoints")" = checkpoint-20 ]
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

@test "stage: a node that fails is not taken for done, and where its words are is said" {
  hashed 20
  chosen 20
  node() { [[ $1 != n2 ]] || touch "$BATS_TEST_TMPDIR/n2"; }
  stages
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == "could not put checkpoint 20 on every node; what the launcher said is in $OUTLAST_RUN_DIR/logs/7.0.log" ]]
  [ -e "$(DURABLE 20)" ]
}

@test "stage: a damaged one that every node reads so goes to quarantine, and people and ledger are told" {
  hashed 20
  hashed 40
  damage 40
  chosen 40
  OUTLAST_MAIL_TO=me
  stages
  [ "$status" = 5 ]
  [ ! -e "$(DURABLE 40)" ]
  grep -q 'checkpoint-40: model.safetensors has another hash' "$OUTLAST_RUN_DIR/quarantine/why.txt"
  [[ $(event quarantined) == *'"step":40,"durable_step":20,"why":"model.safetensors has another hash","by":"outlast"}' ]]
  grep -q 'Subject: .*checkpoint 40 is damaged' "$OUTLAST_STATE"/outbox/*.mail
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
  [[ $OUTLAST_WHY == *"model.safetensors has another hash as n1 reads it, but not as n2 does; "*"OUTLAST_EXCLUDE='n1' in $OUTLAST_RUN_DIR/job.sh"* ]]
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

@test "stage: trainers that read which one it is find it named on every node, and nothing at a fresh start" {
  local host
  OUTLAST_CKPT_PREFIX=iter_ OUTLAST_CKPT_COMPLETE=''
  mkdir "$OUTLAST_RUN_DIR/checkpoints/iter_0000600"
  printf '{"step":600,"files":0,"bytes":0}\n' >"$OUTLAST_RUN_DIR/checkpoints/iter_0000600/MANIFEST.json"
  OUTLAST_RESUME_STEP=600 OUTLAST_RESUME_FROM=$OUTLAST_RUN_DIR/checkpoints/iter_0000600
  stages
  for host in n1 n2; do
    [ "$(cat "$BATS_TEST_TMPDIR/$host/checkpoints/latest_checkpointed_iteration.txt")" = 600 ]
  done
  OUTLAST_CKPT_PREFIX=global_step OUTLAST_RESUME_STEP='' OUTLAST_RESUME_FROM=''
  echo global_step8 >"$BATS_TEST_TMPDIR/n1/checkpoints/latest"
  stages
  [ ! -e "$BATS_TEST_TMPDIR/n1/checkpoints/latest" ]
}

@test "stage: on shared storage, too, the file names the one that is taken" {
  OUTLAST_STORAGE=shared OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints OUTLAST_CKPT_PREFIX=global_step
  mkdir "$OUTLAST_CKPT_DIR/global_step600" "$OUTLAST_CKPT_DIR/global_step900"
  printf '{"step":600,"files":0,"bytes":0}\n' >"$OUTLAST_CKPT_DIR/global_step600/MANIFEST.json"
  echo global_step900 >"$OUTLAST_CKPT_DIR/latest"
  OUTLAST_RESUME_STEP=600 OUTLAST_RESUME_FROM=$OUTLAST_CKPT_DIR/global_step600
  stages
  [ "$(cat "$OUTLAST_CKPT_DIR/latest")" = global_step600 ]
  [ "$(entries "$OUTLAST_CKPT_DIR")" = "global_step600 latest" ]
}

# Of a launch with 4 ranks; this one has 2 nodes with RANKS each.
of_four_ranks() {
  local top=$OUTLAST_RUN_DIR/checkpoints/global_step600
  OUTLAST_CKPT_PREFIX=global_step OUTLAST_RANKS_PER_NODE=$2
  mkdir "$top"
  touch "$top/$1"
  printf '{"step":600,"files":1,"bytes":0,"ranks":4}\n' >"$top/MANIFEST.json"
  OUTLAST_RESUME_STEP=600 OUTLAST_RESUME_FROM=$top OUTLAST_PYTHON=$ROOT/.venv/bin/python
}

@test "stage: another number of ranks is told, and refused where the format cannot be loaded by it" {
  of_four_ranks zero_pp_rank_0_mp_rank_00_optim_states.pt 4
  stages
  [ "$status $OUTLAST_RESUME_RANKS" = "6 4" ]
  [[ $OUTLAST_WHY == "checkpoint 600 was written by 4 ranks and cannot be loaded by the 8 of this launch: ZeRO's files"*"bin/render here JOB --set run=demo --nodes 1 -o $OUTLAST_RUN_DIR/job.sh" ]]
  [ ! -e "$BATS_TEST_TMPDIR/n1/checkpoints" ]
}

@test "stage: another number of ranks is no hindrance to a format that does not mind, nor is the same one to any" {
  of_four_ranks __0_0.distcp 4
  stages
  [ "$status $OUTLAST_RESUME_RANKS" = "0 4" ]
  grep -q 'written by 4 ranks, this launch has 8: yes: DCP' "$OUTLAST_STATE/job.log"
  rm -r "$OUTLAST_RESUME_FROM"
  of_four_ranks zero_pp_rank_0_mp_rank_00_optim_states.pt 2
  stages
  [ "$status" = 0 ]
}
