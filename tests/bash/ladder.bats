#!/usr/bin/env bats
# Nobody is named: what is tried, and in which order
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted; read by lib/ladder.sh
load job

# Four of six train, two ranks each.
setup() {
  a_job
  OUTLAST_NODES=4 OUTLAST_HOSTS=(n1 n2 n3 n4 n5 n6) OUTLAST_ATTEMPTS=9
  OUTLAST_FINGERPRINT=log:unknown_hang:1 OL_ENDING_MADE='step 5' OUTLAST_STEP=5
  ol_badnodes_known() { :; }
  ol_badnodes_worst() { :; }
  ol_badnodes_add() { echo "bad $OUTLAST_STRIKES $*" >>"$SCHED/told"; }
  ol_nodes_pick 2>/dev/null
}

# The rank of that host has died first.
dies_on() { OL_ENDING_DEATH="outlast: rank 3 on $1 ended with code 1 at 1700000000"; }

# One more launch that ends like this; RUNG is what follows.
ends() { # CLASS
  OUTLAST_CLASS=$1 OUTLAST_EVIDENCE=seen OUTLAST_BLAME=() OUTLAST_ENDED_S='' OUTLAST_ATTEMPT=$((OUTLAST_ATTEMPT + 1))
  OUTLAST_STEP=$((OUTLAST_STEP + 1))
  local dropped=$OUTLAST_DROPPED
  status_of ol_decide 2>>"$OUTLAST_STATE/job.log"
  [[ $OUTLAST_THEN != relaunch ]] || ol_ladder_climb "$dropped" 2>>"$OUTLAST_STATE/job.log"
  status_of ol_nodes_pick 2>>"$OUTLAST_STATE/job.log"
  RUNG=$OUTLAST_RUNG
}

# ---- The table by itself.

row() { # TIMES SLOT HOST MOVED_SLOT MOVED_OUT FURTHER HAD_BLIND SPARES WORST WHY_NOT
  local times=$1 slot=$2 host=$3 moved_slot=$4 moved_out=$5 further=$6 had_blind=$7 spares=$8 why_not=${10:-}
  ol_badnodes_worst() { printf '%s\n' "$worst"; }
  local worst=${9#-}
  _ol_ladder_rung
  printf '%s' "$OUTLAST_RUNG"
}

@test "ladder: the table" {
  local want args wrong=''
  while read -r want args; do
    # shellcheck disable=SC2086 # words
    [[ $(row $args) == "$want" ]] || wrong+="$args: $(row $args), not $want"$'\n'
  done <<'END'
again     0 1 n2 - -  0 0 2 n3
again     0 - -  - -  0 0 0 -
move      1 1 n2 - -  0 0 2 n3
move      1 1 n2 - -  0 0 0 -
move      5 3 n4 - -  1 1 0 -
blind     1 0 n1 - -  0 0 2 n3
blind     1 - -  - -  0 0 1 n3
again     1 - -  - -  0 0 1 -
again     1 - -  - -  0 0 0 n3
again     1 - -  - -  0 1 2 n3
again     1 - -  - -  0 0 2 n1
again     1 1 n2 - -  0 0 2 n3 software
software  2 1 n5 1 n2 0 0 1 n3
blind     2 1 n5 1 n2 1 0 1 n3
host      2 3 n2 1 n2 0 0 0 -
host      2 3 n2 1 n2 1 1 0 -
blind     2 2 n3 1 n2 0 0 1 n3
again     2 2 n3 1 n2 0 1 1 n3
again     2 3 n2 1 n2 0 0 0 - swaps
END
  [ -z "$wrong" ] || { echo "$wrong" && false; }
}

@test "ladder: two nodes have no other place to move to than the script's own" {
  OUTLAST_NODES=2 OUTLAST_NODE_LIST=n1,n2
  [ "$(row 1 1 n2 - - 0 0 0 -)" = again ]
  [ "$(row 1 1 n2 - - 0 0 1 -)" = move ]
}

# ---- Who is suspected.

@test "ladder_suspect: the only one of the log's, else the rank that died first, of a hang whom the stacks point at" {
  run -0 _ol_ladder_suspect
  [ "$output" = '- -' ]
  dies_on n3.example.org
  run -0 _ol_ladder_suspect
  [ "$output" = '2 n3' ]
  OUTLAST_SUSPECTS=(n2)
  run -0 _ol_ladder_suspect
  [ "$output" = '1 n2' ]
  OUTLAST_SUSPECTS=(n2 n4) OUTLAST_CLASS=hang
  run -0 _ol_ladder_suspect
  [ "$output" = '- -' ]
  echo 'n4 behind weak' >"$OUTLAST_STATE/suspect"
  run -0 _ol_ladder_suspect
  [ "$output" = '3 n4' ]
}

@test "ladder_suspect: a host that trains not is none of them" {
  dies_on n6
  run -0 _ol_ladder_suspect
  [ "$output" = '- -' ]
}

# ---- What nodes are not moved for.

@test "ladder: no node is moved for code, a full disk or a failure before the first step" {
  dies_on n3
  ends crash
  OUTLAST_CONFIDENCE=0.90
  for OUTLAST_SCOPE in software config storage training-dynamics scheduler; do
    ends crash
    [ "$RUNG $OUTLAST_NODE_LIST" = 'again n1,n2,n3,n4' ]
  done
  OUTLAST_SCOPE=unknown OL_ENDING_MADE=''
  ends crash
  [ "$RUNG" = again ]
  [[ $(event ended) == *'"rung":"again","rung_why":"it has made no step, and nothing speaks of hardware"'* ]]
  OUTLAST_SCOPE=fabric
  ends crash
  [ "$RUNG" = move ]
}

@test "ladder: whoever is named, and what is no crash and no hang, needs none" {
  local class
  for class in crash node walltime launch storage; do
    OUTLAST_CLASS=$class OUTLAST_BLAME=()
    [[ $class != crash ]] || OUTLAST_BLAME=(n3)
    ol_ladder_judge
    [ -z "$OUTLAST_RUNG" ]
  done
}

# ---- From one launch to the next.

@test "ladder: once more, then a spare in the suspected place; it stays in that place: the run is held" {
  dies_on n3
  ends crash
  [ "$RUNG $OUTLAST_NODE_LIST" = 'again n1,n2,n3,n4' ]
  [[ $(event ended) == *'"rung":"again"'*'"then":"relaunch"}' ]]
  ends crash
  [ "$RUNG $OUTLAST_NODE_LIST $OUTLAST_SWAPPED" = 'move n1,n2,n5,n4 1' ]
  [[ $(event swapped) == *'"out":"n3","in":"n5","slot":2,"how":"move","fingerprint":"log:unknown_hang:1"'* ]]
  dies_on n5
  ends crash
  [ "$RUNG $OUTLAST_THEN" = 'software hold' ]
  grep -q 'place 2 fails on n5 as it did on n3' "$OUTLAST_RUN_DIR/control/hold"
  [ -z "$(event excluded)" ]
  [ ! -s "$SCHED/told" ]
}

@test "ladder: without a spare two hosts change places; it follows its host, which is out of use then" {
  OUTLAST_HOSTS=(n1 n2 n3 n4)
  dies_on n2
  ends hang
  echo 'n2 behind weak' >"$OUTLAST_STATE/suspect"
  ends hang
  [ "$RUNG $OUTLAST_NODE_LIST" = 'move n1,n4,n3,n2' ]
  [[ $(event swapped) == *'"out":"n2","in":"n4","slot":1,'*'"with":3}' ]]
  OUTLAST_SAME_FAILURE=1 # it is none any more once the host is known
  ends hang
  [ "$RUNG" = host ]
  [[ $(event excluded) == *'"nodes":"n2","why":"follows_host"'* ]]
  grep -q '^bad 1 follows_host n2$' "$SCHED/told"
  told 'submit demo.4 .*exclude=n2 .*'
}

@test "ladder: neither follows: one blind swap of the worst of those who train, for half a strike, and never a second" {
  ol_badnodes_worst() {
    [[ " $* " == *' n4 '* && " $* " != *' n1 '* ]] && echo n4
  }
  ends crash
  dies_on n3
  ends crash
  dies_on n2
  ends crash
  [ "$RUNG $OUTLAST_NODE_LIST" = 'blind n1,n2,n5,n6' ]
  [[ $(event swapped) == *'"out":"n4","in":"n6","slot":3,"how":"blind"'* ]]
  ol_nodes_strike
  [ "$(cat "$SCHED/told")" = 'bad 0.5 blind_swap n4' ]
  ends crash
  [ "$RUNG $OUTLAST_THEN $OUTLAST_NODE_LIST" = 'again relaunch n1,n2,n5,n6' ]
}

@test "ladder: what got further since its place was moved is not held" {
  dies_on n3
  ends crash
  ends crash
  ol_ledger_add checkpoint_durable step:=100
  dies_on n5
  ends crash
  [ "$RUNG $OUTLAST_THEN" = 'again relaunch' ]
}

@test "ladder: another failure begins anew, and so does another job" {
  dies_on n3
  ends crash
  OUTLAST_FINGERPRINT=end:other
  ends crash
  [ "$RUNG" = again ]
  OUTLAST_JOB_ID=8
  ends crash
  [ "$RUNG" = again ]
}

@test "ladder_climb: nobody is moved on a suspicion when a look at the nodes has found a sick one" {
  OUTLAST_RUNG=move OUTLAST_RUNG_SLOT=2 OUTLAST_RUNG_HOST=n3 OUTLAST_RUNG_WHY=seen
  ol_nodes_drop health_check_gpu_count n4 2>/dev/null
  ol_ladder_climb '' 2>/dev/null
  ol_nodes_pick 2>/dev/null
  [ "$OUTLAST_NODE_LIST" = n1,n2,n3,n5 ]
}
