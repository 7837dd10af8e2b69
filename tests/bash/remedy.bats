#!/usr/bin/env bats
# Another checkpoint, one more try, or a person
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_LAUNCH_PID=1 OUTLAST_GENERATION_MINE=1
  cp "$BATS_TEST_FILENAME" "$OUTLAST_STATE/job.sh"
  ol_run_pause() { return 0; }
  ol_sidecar_drain() { return 0; }
  OUTLAST_PATTERN=x OUTLAST_SCOPE=config OUTLAST_PERSISTENCE=systemic OUTLAST_ACTION=stop OUTLAST_CONFIDENCE=0.90
}

decide() { # CLASS
  OUTLAST_CLASS=$1 OUTLAST_EVIDENCE=seen
  status_of ol_decide 2>/dev/null
}
then_of() {
  decide "$@"
  printf '%s' "$OUTLAST_THEN"
}
suspect() { OUTLAST_SUSPECT=$OUTLAST_RUN_DIR/checkpoints/checkpoint-$1; }

@test "remedy: code or settings before the first step: held at once" {
  OL_ENDING_EARLY=1
  [ "$(then_of systemic)" = hold ]
}

@test "remedy: the first such error after real steps is tried once more, the second is held" {
  OUTLAST_FINGERPRINT=log:x:ab OUTLAST_STEP=50
  [ "$(then_of systemic)" = relaunch ]
  past 6 ended class=systemic fingerprint=log:x:ab step:=50 durable_step:=40 then=relaunch
  [ "$(then_of systemic)" = hold ]
}

@test "remedy: an error that the run has been beyond, or another one, is a first one again" {
  OUTLAST_FINGERPRINT=log:x:ab OUTLAST_STEP=90
  past 5 ended class=systemic fingerprint=log:x:ab step:=50 durable_step:=40 then=relaunch
  past 5 checkpoint_durable step:=60
  [ "$(then_of systemic)" = relaunch ]
  OUTLAST_FINGERPRINT=log:y:cd
  [ "$(then_of systemic)" = relaunch ]
}

@test "remedy: what failed on other nodes as well is held" {
  OUTLAST_EVERYWHERE=n8,n9
  [ "$(then_of systemic)" = hold ]
}

@test "remedy: a bad checkpoint goes to quarantine, and the run goes on from the one before, at once" {
  durable 20
  durable 40
  suspect 40
  OUTLAST_RAN_S=3 OUTLAST_FINGERPRINT=log:x:ab
  decide bad_checkpoint
  [ "$OUTLAST_THEN $OUTLAST_DELAY_S" = 'relaunch 0' ]
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-20 ]
  grep -q 'checkpoint-40: bad_checkpoint: seen' "$OUTLAST_RUN_DIR/quarantine/why.txt"
  [[ $(event quarantined) == *'"step":40,"durable_step":20,"why":"bad_checkpoint: seen","by":"outlast"'* ]]
}

@test "remedy: the second bad checkpoint in a row is a person's, and stays where it is" {
  durable 20
  suspect 20
  past 6 ended class=bad_checkpoint durable_step:=40 then=relaunch
  past 6 quarantined step:=40
  [ "$(then_of bad_checkpoint)" = hold ]
  [ -e "$OUTLAST_RUN_DIR/checkpoints/checkpoint-20" ]
}

@test "remedy: a checkpoint that cannot be moved is a hold that says so" {
  suspect 40
  decide bad_checkpoint
  [ "$OUTLAST_THEN" = hold ]
  grep -q 'checkpoint-40 could not be taken out of use' "$OUTLAST_RUN_DIR/control/hold"
}

@test "remedy: a training that went wrong goes back one checkpoint, once" {
  OUTLAST_SCOPE=training-dynamics OUTLAST_STEP=55
  durable 20
  durable 40
  [ "$(then_of systemic)" = relaunch ]
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-20 ]
  past 6 ended class=systemic scope=training-dynamics step:=55 durable_step:=40 then=relaunch
  [ "$(then_of systemic)" = hold ]
}

@test "remedy: with one checkpoint there is nothing to go back to" {
  OUTLAST_SCOPE=training-dynamics OUTLAST_STEP=55
  durable 40
  decide systemic
  [ "$OUTLAST_THEN" = hold ]
  grep -q 'no older checkpoint' "$OUTLAST_RUN_DIR/control/hold"
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-40 ]
}

@test "remedy: the verdict is in the ended event, with who is to blame, and those are left out" {
  OUTLAST_HOSTS=(n3 n4) OUTLAST_BLAME=(n4) OUTLAST_BLAME_WHY=ib_retry_exceeded OUTLAST_SCOPE=fabric OUTLAST_NODES=2
  decide crash
  [ "$OUTLAST_THEN" = submit ]
  [[ $(event ended) == *'"pattern":"x","scope":"fabric","persistence":"systemic","action":"stop","confidence":0.90,"line":null,"text":"","why":"","began_on":"","blame":"n4","blame_why":"ib_retry_exceeded"'*'"then":"submit"}' ]]
  told 'submit demo.4 .*exclude=n4 .*'
  [[ $(event excluded) == *'"nodes":"n4"'* ]]
}

@test "remedy: hardware that the log blames on a node: the next job goes without it, at once" {
  OUTLAST_HOSTS=(n3 n4) OUTLAST_BLAME=(n4) OUTLAST_SCOPE=hardware OUTLAST_NODES=2
  decide node
  told 'submit demo.4 .*exclude=n4 .*'
}

@test "remedy: the full disk of one node is left with the node; without an answer of the file system nobody is" {
  OUTLAST_HOSTS=(n3 n4) OUTLAST_BLAME=(n4) OUTLAST_SCOPE=storage OUTLAST_NODES=2
  [ "$(then_of storage)" = submit ]
  _ol_ending_shared_is_full() { return 124; }
  [ "$(then_of storage)" = relaunch ]
}

@test "remedy: nobody is blamed for what a cancel breaks" {
  OUTLAST_BLAME=(n4)
  decide cancelled
  [[ $(event ended) != *'"blame"'* ]]
}
