#!/usr/bin/env bats
# What follows from an ending: docs/endings.md, last column
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  ol_progress_reset
  OUTLAST_LAUNCH_PID=1 OUTLAST_GENERATION_MINE=1
  cp "$BATS_TEST_FILENAME" "$OUTLAST_STATE/job.sh"
  ol_run_pause() { return 0; }
}

decide() { # CLASS [EVIDENCE]
  OUTLAST_CLASS=$1 OUTLAST_EVIDENCE=${2:-seen}
  status_of ol_decide 2>/dev/null
}
then_of() {
  decide "$@"
  printf '%s' "$OUTLAST_THEN"
}
pending() { printf 'state=pending verdict=none restarts=0\n' >"$SCHED/state.$1"; }

@test "decide: walltime, walltime_late and preempted have a successor" {
  local class
  for class in walltime walltime_late preempted; do
    OUTLAST_NEXT_ID='' && : >"$SCHED/told"
    decide "$class"
    [ "$OUTLAST_THEN" = submit ]
    told 'submit demo.4 depend=7 .*'
  done
}

@test "decide: requeued and superseded leave, and touch nobody's successor" {
  past 7 submitted successor=9
  pending 9
  [ "$(then_of requeued)" = leave ]
  [ "$(then_of superseded)" = leave ]
  [ ! -s "$SCHED/told" ]
}

@test "decide: cancelled removes the successor and submits nothing" {
  past 7 submitted successor=9
  pending 9
  [ "$(then_of cancelled)" = stop ]
  [ "$(cat "$SCHED/told")" = 'cancel 9' ]
}

@test "decide: ended_unknown submits nothing and leaves an insurance where it is: it decides at its start" {
  past 7 submitted successor=9
  pending 9
  [ "$(then_of ended_unknown)" = stop ]
  [ ! -s "$SCHED/told" ]
}

@test "decide: stopped, early_exit, wrong_resume, drift, other_ranks, bad_checkpoint and any word that is new hold" {
  local class
  for class in stopped early_exit wrong_resume drift other_ranks bad_checkpoint something_new; do
    [ "$(then_of "$class")" = hold ]
  done
  [ ! -s "$SCHED/told" ]
}

@test "decide: done removes the successor" {
  past 7 submitted successor=9
  pending 9
  [ "$(then_of "done")" = finish ]
  told 'cancel 9'
}

@test "decide: a crash or a hang is launched again while it is worth it" {
  [ "$(then_of crash)" = relaunch ]
  [ "$(then_of hang)" = relaunch ]
  OUTLAST_ATTEMPT=3
  [ "$(then_of crash)" = submit ]
}

@test "decide: a crash too close to the deadline has a successor instead" {
  printf '%s\n' "$(($(now) + OUTLAST_MARGIN_S + 100))" >"$OUTLAST_STATE/end_time"
  [ "$(then_of crash)" = submit ]
}

@test "decide: the wait before the next try counts for what is worth it" {
  printf '%s\n' "$(($(now) + OUTLAST_MARGIN_S + 150))" >"$OUTLAST_STATE/end_time"
  [ "$(then_of crash)" = relaunch ]
  OUTLAST_FINGERPRINT='code 1' OUTLAST_RAN_S=3
  [ "$(then_of crash)" = submit ]
  told 'submit demo.4 depend=7 delay_s=60 .*'
}

@test "decide: a launch that fails is tried once more; 126, 127 and a bad setup line are not" {
  [ "$(then_of launch 'the launcher ended with code 233, no rank started')" = relaunch ]
  OUTLAST_ATTEMPT=2
  [ "$(then_of launch 'the launcher ended with code 233, no rank started')" = hold ]
  OUTLAST_ATTEMPT=1
  local evidence
  for evidence in 'outlast: rank 0 on n1 ended with code 127 at 1' 'code 126' 'prepare failed, code 72' \
    'the launcher ended with code 72, no rank started'; do
    [ "$(then_of launch "$evidence")" = hold ]
  done
  [ "$(then_of launch 'code 1270')" = relaunch ]
}

@test "decide: storage is held where the shared file system is full, and tried again where it is not" {
  [ "$(then_of storage)" = relaunch ]
  _ol_ending_shared_is_full() { return 0; }
  [ "$(then_of storage)" = hold ]
  _ol_ending_shared_is_full() { return 124; }
  [ "$(then_of storage)" = relaunch ]
}

@test "decide: a job that could not even start for the file system leaves it to a later one" {
  OUTLAST_ATTEMPT=0
  [ "$(then_of storage)" = submit ]
  told 'submit demo.4 depend=7 delay_s=1800 .*'
}

@test "decide: internal goes on once after durable progress, else it holds" {
  [ "$(then_of internal)" = hold ]
  echo 40 >"$OUTLAST_STATE/durable_step"
  [ "$(then_of internal)" = submit ]
}

@test "decide: without a chain nothing is submitted" {
  OUTLAST_CHAIN=0
  [ "$(then_of walltime)" = stop ]
  [ ! -s "$SCHED/told" ]
}

@test "decide: the guards may say no, and then it is a hold with their reason" {
  past 5 started durable_step:=0
  past 6 started durable_step:=0
  ol_ledger_add started durable_step:=0
  decide walltime
  [ "$OUTLAST_THEN" = hold ]
  grep -q '3 jobs in a row' "$OUTLAST_RUN_DIR/control/hold"
  [ ! -s "$SCHED/told" ]
}

@test "decide: a preemption is no failure, whatever the guards count" {
  past 5 started durable_step:=0
  past 6 started durable_step:=0
  ol_ledger_add started durable_step:=0
  [ "$(then_of preempted)" = submit ]
}

@test "decide: a complete checkpoint that is about to be copied is progress" {
  past 5 started durable_step:=0
  past 6 started durable_step:=0
  ol_ledger_add started durable_step:=0
  checkpoint 40
  [ "$(then_of walltime)" = submit ]
}

@test "decide: one ended event, with what it was, why and what follows" {
  OUTLAST_LAUNCH_CODE=137 OUTLAST_STEP=55 OUTLAST_RAN_S=700 OUTLAST_FINGERPRINT='signal KILL'
  decide crash 'a "quoted" word'
  [ "$(grep -c '"event":"ended"' "$OUTLAST_STATE/events.jsonl")" = 1 ]
  [[ $(event ended) == *'"class":"crash","evidence":"a \"quoted\" word","code":137,"step":55,"durable_step":0,"ran_s":700,"fingerprint":"signal KILL","margin_s":300,"rung":"again","rung_why":"for the first time in this job: the same nodes once more","then":"relaunch"}' ]]
}

# A job of two training nodes and so many spares.
has() { # SPARES
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n03 n04 n05 n06)
  OUTLAST_HOSTS=("${OUTLAST_HOSTS[@]:0:2+$1}")
  ol_nodes_pick
}

@test "decide: a dead node without a spare is excluded from the next job, and the ledger says so" {
  has 0
  echo n04 >"$SCHED/down"
  decide node 'the launcher says: Node failure on n04'
  told 'submit demo.4 .*exclude=n04 .*'
  [[ $(event excluded) == *'"nodes":"n04","why":"node_down"'* ]]
  [[ $(event ended) == *'"because":"1 of 2 nodes are left, and a launch takes 2","then":"submit"}' ]]
}

@test "decide: a dead node with a spare is given up, and the training launched again in the same job" {
  has 1
  echo n04 >"$SCHED/down"
  ol_sched_release() { echo "release $*" >>"$SCHED/told"; }
  [ "$(then_of node)" = relaunch ]
  [ "$(cat "$SCHED/told")" = 'release n04' ]
}

@test "decide: so is it when others than the scheduler say who is to blame for a crash, and nobody waits for it" {
  has 1
  OUTLAST_BLAME=(n04) OUTLAST_BLAME_WHY=RCCL_timeout OUTLAST_FINGERPRINT='code 1' OUTLAST_RAN_S=3
  decide crash
  [ "$OUTLAST_THEN $OUTLAST_DELAY_S $OUTLAST_SWAPPED" = 'relaunch 0 1' ]
  [[ $(event excluded) == *'"nodes":"n04","why":"RCCL_timeout"'* ]]
}

@test "decide: the node that runs the script is left by a successor alone" {
  has 2
  OUTLAST_BLAME=(n03) OUTLAST_BLAME_WHY=hang
  decide hang
  told 'submit demo.4 .*exclude=n03 .*'
  [[ $(event ended) == *'n03 runs this script'* ]]
}

@test "decide: swaps are no attempts, and have a limit of their own" {
  has 2
  OUTLAST_SWAPS=1 OUTLAST_ATTEMPTS=1 OUTLAST_BLAME=(n04)
  [ "$(then_of crash)" = relaunch ]
  OUTLAST_SWAPPED=1 OUTLAST_ATTEMPT=2 OUTLAST_BLAME=(n05)
  decide crash
  [ "$OUTLAST_THEN" = submit ]
  [[ $(event ended) == *'"because":"this job has swapped nodes 1 times (guard.swaps)"'* ]]
}

@test "decide: what launches have cost this job has a limit, those too that never made a step" {
  OUTLAST_RECOVERY_S=100 OUTLAST_ATTEMPTS=9
  [ "$(then_of crash)" = relaunch ]
  decide crash
  OUTLAST_ENDED_S=$(($(now) - 60))
  ol_decide_trains "$(now)"
  [ "$(then_of crash)" = relaunch ]
  OUTLAST_ENDED_S=$(($(now) - 5000)) OUTLAST_LAUNCH_S=$(($(now) - 4990)) OUTLAST_STARTUP_S=40
  decide crash
  [ "$OUTLAST_THEN" = submit ]
  [[ $(event ended) == *'"because":"this job has lost 11'?' s to launches (guard.recovery_s)"'* ]]
}

@test "decide: nobody is blamed for what a person or the clock has ended" {
  local class
  has 1
  OUTLAST_BLAME=(n04)
  for class in cancelled walltime stopped; do
    decide "$class"
    ! ol_nodes_is_dropped n04
  done
  [ "$(event excluded)" = "" ]
}

@test "decide: many at once are nobody's fault, but for those that the scheduler calls down" {
  OUTLAST_NODES=4 OUTLAST_HOSTS=(n01 n02 n03 n04 n05 n06)
  OUTLAST_BLAME=(n02 n03 n04) OUTLAST_BLAME_WHY=node_down
  [ "$(then_of node 'the launcher says: No reply from n02')" = relaunch ]
  [ "$(event excluded)" = "" ]
  echo n03 >"$SCHED/down"
  OUTLAST_BLAME=(n02 n03 n04)
  decide node 'the launcher says: No reply from n02'
  [[ $(event excluded) == *'"nodes":"n03"'* ]]
}

@test "decide: a dead node gets a strike, the node of a cancelled job does not" {
  OUTLAST_HOSTS=(n03 n04)
  printf 'n04\n' >"$SCHED/down"
  decide cancelled
  [ ! -e "${OUTLAST_RUN_DIR%/*}/bad_nodes.txt" ]
  decide node 'the launcher says: Node failure on n04'
  grep -qE '^n04  [0-9-]+  node_down  job=7\.0\.1$' "${OUTLAST_RUN_DIR%/*}/bad_nodes.txt"
}

@test "decide: a node that dies before anything was launched is excluded as well" {
  unset OUTLAST_LOG OUTLAST_LAUNCH_PID
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n03 n04) OUTLAST_ATTEMPT=0
  echo n04 >"$SCHED/down"
  set +e # sed finds no log, and a job has no -e
  decide node
  set -e
  told 'submit demo.4 .*exclude=n04 .*'
}

@test "decide: an insurance that waits already learns of the dead node" {
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n03 n04) OUTLAST_NEXT_ID=9
  pending 9
  echo n04 >"$SCHED/down"
  decide node
  [ "$(cat "$SCHED/told")" = 'exclude 9 n04' ]
}

@test "decide: after TERM the ending goes out first, and then the words that a person types to go on" {
  local order=$BATS_TEST_TMPDIR/order
  touch "$OUTLAST_STATE/term"
  ol_courier_hurry() { echo hurry >>"$order"; }
  ol_log_info() { [[ $1 != "no further job"* ]] || echo words >>"$order"; }
  decide cancelled
  [ "$(paste -sd' ' "$order")" = "hurry words hurry" ]
}

@test "decide: after TERM it is too late to give a node up, or to launch" {
  has 1
  echo n04 >"$SCHED/down"
  touch "$OUTLAST_STATE/term"
  ol_sched_release() { echo "release $*" >>"$SCHED/told"; }
  decide node
  run ! told 'release n04'
  told 'submit demo.4 .*exclude=n04 .*'
}

@test "decide: refused for good is a hold that says what the scheduler said" {
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >"$SCHED/refuses"
  decide walltime
  [ "$OUTLAST_THEN" = hold ]
  grep -q AssocMaxSubmitJobLimit "$OUTLAST_RUN_DIR/control/hold"
}

@test "decide: no answer to the end is no hold, and a line says what to type" {
  touch "$SCHED/silent" "$OUTLAST_STATE/term"
  decide walltime
  [ "$OUTLAST_THEN" = stop ]
  [[ $(event warned) == *"outlast resume"* ]]
  [ ! -e "$OUTLAST_RUN_DIR/control/hold" ]
}

@test "decide: an insurance that somebody took away ends the chain, and says so" {
  OUTLAST_NEXT_ID=9
  decide walltime
  [ "$OUTLAST_THEN" = stop ]
  [[ $(event warned) == *"job 9, which was to follow, is gone"*"outlast resume"* ]]
  [ ! -s "$SCHED/told" ]
}

@test "decide_hold: two lines, why and what to type, in the file, and both in the ledger" {
  status_of ol_decide_hold $'first line\nsecond "line"' 2>/dev/null
  [ "$(wc -l <"$OUTLAST_RUN_DIR/control/hold")" = 2 ]
  [ "$(sed -n 2p "$OUTLAST_RUN_DIR/control/hold")" = "outlast resume $OUTLAST_RUN_DIR" ]
  [[ $(event held) == *'"todo":"outlast resume '* ]]
}

@test "decide_hold: a link that somebody of the group has put in its place is replaced, not followed" {
  echo mine >"$BATS_TEST_TMPDIR/precious"
  ln -s "$BATS_TEST_TMPDIR/precious" "$OUTLAST_RUN_DIR/control/hold"
  status_of ol_decide_hold 'stuck' 2>/dev/null
  [ "$(cat "$BATS_TEST_TMPDIR/precious")" = mine ]
  [ "$(head -n 1 "$OUTLAST_RUN_DIR/control/hold")" = stuck ]
}

@test "decide: what a person stopped needs no second file" {
  decide stopped
  [ ! -e "$OUTLAST_RUN_DIR/control/hold" ]
}

@test "decide: a hold removes an insurance" {
  OUTLAST_SUCCESSOR=launch OUTLAST_NEXT_ID=9
  pending 9
  decide early_exit
  told 'cancel 9'
}

@test "decide_leave: the ledger says why" {
  status_of ol_decide_leave 'the run is finished' 2>/dev/null
  [ "$OUTLAST_THEN" = leave ]
  [[ $(event left) == *'"why":"the run is finished"}' ]]
}

@test "decide: a copy whose run has a new owner leaves, whatever it saw, and holds nothing" {
  local class
  owns_the_run
  for class in crash launch walltime early_exit; do
    [ "$(then_of "$class")" != leave ]
  done
  : >"$SCHED/told"
  rm -f "$OUTLAST_RUN_DIR/control/hold"
  printf 'job=7 restart=1 host=n2\n' >"$OUTLAST_RUN_DIR/lease/000099"
  for class in crash launch walltime early_exit; do
    decide "$class"
    [ "$OUTLAST_CLASS $OUTLAST_THEN" = "superseded leave" ]
  done
  [[ $OUTLAST_EVIDENCE == *early_exit* ]]
  [ ! -s "$SCHED/told" ]
  [ ! -e "$OUTLAST_RUN_DIR/control/hold" ]
}

@test "decide: a hold, an early exit and an end that nobody knows are told, each under its name" {
  OUTLAST_MAIL_TO=bob@example.org
  _told() {
    rm -rf "$OUTLAST_STATE/outbox"
    then_of "$1" >/dev/null
    cat "$OUTLAST_STATE"/outbox/*.mail | sed -n 's/^X-Outlast-Kind: //p'
  }
  [ "$(_told wrong_resume)" = held ]
  [ "$(_told early_exit)" = early_exit ]
  [ "$(_told ended_unknown)" = ended_unknown ]
  run ! _told walltime
}

@test "decide: a refused submit is told under its own name, with what to type" {
  OUTLAST_MAIL_TO=bob@example.org OUTLAST_MAIL_ON='refused no_successor'
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >"$SCHED/refuses"
  decide walltime
  grep -qx 'X-Outlast-Kind: refused' "$OUTLAST_STATE"/outbox/*.mail
  grep -q AssocMaxSubmitJobLimit "$OUTLAST_STATE"/outbox/*.mail
  grep -qx "To go on: outlast resume $OUTLAST_RUN_DIR" "$OUTLAST_STATE"/outbox/*.mail
  rm -r "$OUTLAST_STATE/outbox"
  OUTLAST_MAIL_ON='held finished'
  decide walltime
  [ ! -e "$OUTLAST_STATE/outbox" ]
}

# A node is lost to a job that trains on two: no_spares_of HOST... (out of use)
no_spares_of() {
  OUTLAST_MAIL_TO=bob@example.org OUTLAST_MAIL_ON=no_spares OUTLAST_BAD_NODES=$BATS_TEST_TMPDIR/bad.txt OUTLAST_NEXT_ID=''
  OUTLAST_DROPPED='' OUTLAST_BLAME=("$@")
  rm -rf "$OUTLAST_STATE/outbox"
  decide node
  cat "$OUTLAST_STATE"/outbox/*.mail 2>/dev/null || true
}

@test "decide: that the spares are used up is told when no launch is left in the job, once, with what follows" {
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n01 n02 n03)
  [ -z "$(no_spares_of n02)" ]
  run -0 no_spares_of n02 n03
  [ "$(grep -c '^X-Outlast-Kind: no_spares' <<<"$output")" = 1 ]
  [[ $output == *'1 of 3 nodes are left, and a launch takes 2.'$'\n''Job 8 follows'* ]]
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >"$SCHED/refuses"
  run -0 no_spares_of n02 n03
  [[ $output == *'No further job: the scheduler refused'*'To go on: outlast resume'* ]]
}

@test "decide: a job without spares, or that lost its first node, has not used them up" {
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n01 n02)
  [ -z "$(no_spares_of n02)" ]
  OUTLAST_HOSTS=(n01 n02 n03)
  [ -z "$(no_spares_of n01)" ]
}

@test "decide: no answer to the end is told, with what to type" {
  OUTLAST_MAIL_TO=bob@example.org
  ol_successor_submit() {
    OUTLAST_WHY='the scheduler does not answer'
    return 2
  }
  OUTLAST_CLASS=walltime OUTLAST_EVIDENCE=x
  status_of ol_decide 2>/dev/null
  grep -qx 'X-Outlast-Kind: no_successor' "$OUTLAST_STATE"/outbox/*.mail
  grep -qx "To go on: outlast resume $OUTLAST_RUN_DIR" "$OUTLAST_STATE"/outbox/*.mail
}

@test "decide: a secret in the reason of a hold stays out of the ledger, control/hold and the mail" {
  OUTLAST_MAIL_TO=bob@example.org
  status_of ol_decide_hold 'checkpoint: token hf_abcdefghijklmnopqrstuvwxyz123456' 2>/dev/null
  cat "$OUTLAST_STATE/events.jsonl" "$OUTLAST_STATE"/outbox/*.mail "$OUTLAST_RUN_DIR/control/hold" >"$BATS_TEST_TMPDIR/told"
  [ "$(grep -c 'token \*\*\*' "$BATS_TEST_TMPDIR/told")" = 3 ]
  run ! grep -q hf_abc "$BATS_TEST_TMPDIR/told"
}
