#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted; read by lib/nodes.sh
load job

setup() {
  a_job
  a_job_on 4 n1 n2 n3 n4 n5 n6
  ol_badnodes_known() { :; }
  ol_badnodes_add() { :; }
}

a_job_on() { # NODES HOST...
  OUTLAST_NODES=$1 OUTLAST_HOSTS=("${@:2}") OUTLAST_SLOTS=() OUTLAST_DROPPED=''
}
picks() {
  OUTLAST_NODE_LIST=''
  status_of ol_nodes_pick 2>/dev/null
}
drop() { ol_nodes_drop "$@" 2>/dev/null; }

@test "nodes_pick: neighbours at first, as the scheduler has them" {
  picks
  [ "$status $OUTLAST_NODE_LIST" = '0 n1,n2,n3,n4' ]
  [ "$(ol_nodes_spares)" = 2 ]
}

@test "nodes_pick: a spare takes the place of the lost one, and the others keep theirs" {
  picks
  drop hang n2
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n5,n3,n4 ]
  [[ $(event swapped) == *'"out":"n2","in":"n5","slot":1}' ]]
  drop hang n5 n4
  picks
  [ "$status" = 1 ]
  [ "$OUTLAST_WHY" = '3 of 6 nodes are left, and a launch takes 4' ]
  [ "$OUTLAST_NODE_LIST" = '' ]
}

@test "nodes_pick: a spare that is out of use is never taken" {
  picks
  drop hang n5
  drop hang n3
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n2,n6,n4 ]
  [ "$(ol_nodes_spares)" = 0 ]
}

@test "nodes_pick: the node of the script has the first place, or there is no launch" {
  drop hang n1
  picks
  [ "$status" = 1 ]
  [ "$OUTLAST_WHY" = 'n1 runs this script and is out of use' ]
}

@test "nodes_pick: who had trouble lately stands by, and trains only where nobody else is left" {
  ol_badnodes_known() {
    printf 'n1 hang\n'
    [[ " $* " != *' n2 '* ]] || printf 'n2 RCCL_timeout\n'
  }
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n3,n4,n5 ]
  drop hang n4
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n3,n6,n5 ]
  drop hang n5
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n3,n6,n2 ]
}

@test "nodes_move: a spare comes in, then another place's host; who was moved out comes back when nobody else is left" {
  picks
  [ "$(ol_nodes_fresh)" = 2 ]
  ol_nodes_move 1 how=move 2>/dev/null
  ol_nodes_move 1 2>/dev/null
  picks
  [ "$OUTLAST_NODE_LIST $(ol_nodes_fresh) $(ol_nodes_spares)" = 'n1,n6,n3,n4 0 2' ]
  ol_nodes_move 3 2>/dev/null
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n6,n4,n3 ]
  [[ $(event swapped) == *'"out":"n3","in":"n4","slot":3,"with":2}' || $(event swapped) == *'"out":"n4","in":"n3","slot":3,"with":2}' ]]
  drop hang n6
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n2,n4,n3 ]
}

@test "nodes_move: the script's own place is never another's" {
  a_job_on 2 n1 n2
  picks
  status_of ol_nodes_move 1
  [ "$status" = 1 ]
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n2 ]
}

@test "nodes_pick: nobody is known to be bad where nobody can say" {
  ol_badnodes_known() {
    echo 'n2 hang'
    return 2
  }
  picks
  [ "$OUTLAST_NODE_LIST" = n1,n2,n3,n4 ]
}

@test "nodes_drop: told once, with the reason, to the ledger and to whoever keeps the list of bad nodes" {
  ol_badnodes_add() { echo "bad $*" >>"$SCHED/told"; }
  drop hang n2 n3
  drop node_down n2
  ol_nodes_strike
  [ "$(grep -c '"event":"excluded"' "$OUTLAST_STATE/events.jsonl")" = 1 ]
  [[ $(event excluded) == *'"nodes":"n2 n3","why":"hang"}' ]]
  [ "$(cat "$SCHED/told")" = 'bad hang n2 n3' ]
}

@test "nodes_drop: the scheduler hears of a dead node at once; strikes wait until they are asked for, each written once" {
  ol_badnodes_add() { echo "bad $*" >>"$SCHED/told"; }
  ol_sched_release() { echo "release $*" >>"$SCHED/told"; }
  drop hang n2 n3
  drop node_down n4
  [ "$(cat "$SCHED/told")" = 'release n4' ]
  ol_nodes_strike
  ol_nodes_strike
  [ "$(cat "$SCHED/told")" = $'release n4\nbad hang n2 n3\nbad node_down n4' ]
}

@test "nodes_strike_aside: nobody waits for it, and it is written once; nothing is to be written as a rule" {
  set -u
  ol_nodes_strike_aside
  ol_nodes_strike
  mkfifo "$SCHED/stalls"
  ol_badnodes_add() {
    read -r <"$SCHED/stalls"
    echo "bad $*" >>"$SCHED/told"
  }
  drop hang n2 n3
  ol_nodes_strike_aside
  ol_nodes_strike
  [ ! -s "$SCHED/told" ]
  echo >"$SCHED/stalls"
  wait "$!"
  [ "$(cat "$SCHED/told")" = 'bad hang n2 n3' ]
}

@test "nodes_drop: dead ones are given up, and nothing is started there; sick ones stay with the job" {
  ol_sched_release() { echo "release $*" >>"$SCHED/told"; }
  drop hang n2
  [ ! -s "$SCHED/told" ]
  drop node_down n3 n4
  [ "$(cat "$SCHED/told")" = $'release n3\nrelease n4' ]
  [ "$(ol_nodes_others)" = n2,n5,n6 ]
}

# The rules for any order of losses: nobody out of use, nobody twice, as many as asked for as long as there are enough, those
# who trained and are well in their places, and of the others none whom a better one could have stood in for.
@test "nodes_pick: holds its rules through 100 jobs of any size and fate" {
  local job hosts=() bad host count last=() slot list=() outside inside RANDOM=20261130
  ol_badnodes_known() { for host in "$@"; do [[ " $bad " != *" $host "* ]] || echo "$host hang"; done; }
  ol_ledger_add() { :; }
  for ((job = 0; job < 100; job++)); do
    hosts=() bad='' last=()
    count=$((1 + RANDOM % 12))
    for ((slot = 0; slot < count; slot++)); do
      hosts+=("h$slot")
      ((RANDOM % 4 > 0)) || bad+=" h$slot"
    done
    a_job_on "$((1 + RANDOM % count))" "${hosts[@]}"
    for (( ; ; )); do
      picks
      IFS=, read -ra list <<<"$OUTLAST_NODE_LIST"
      count=$(_ol_nodes_left | wc -l)
      if ol_nodes_is_dropped h0 || ((count < OUTLAST_NODES)); then
        [[ $status == 1 && -n $OUTLAST_WHY ]] || echo "job $job: launched on too few"
        break
      fi
      [[ $status == 0 && ${#list[@]} == "$OUTLAST_NODES" && ${list[0]} == h0 ]] || echo "job $job: $status ${list[*]}"
      [[ $(printf '%s\n' "${list[@]}" | sort | uniq -d) == '' ]] || echo "job $job: twice in ${list[*]}"
      for slot in "${!list[@]}"; do
        ! ol_nodes_is_dropped "${list[slot]}" || echo "job $job: ${list[slot]} is out of use"
        [[ -z ${last[*]:-} ]] || ol_nodes_is_dropped "${last[slot]}" || [[ ${last[slot]} == "${list[slot]}" ]] ||
          echo "job $job: ${last[slot]} has lost its place"
      done
      inside='' outside=''
      for host in "${hosts[@]}"; do
        if [[ " ${list[*]} " == *" $host "* ]]; then
          [[ " ${last[*]:-} h0 " == *" $host "* || " $bad " != *" $host "* ]] || inside+=" $host"
        else
          ol_nodes_is_dropped "$host" || [[ " $bad " == *" $host "* ]] || outside+=" $host"
        fi
      done
      [[ -z $inside || -z $outside ]] || echo "job $job: took$inside and left$outside"
      last=("${list[@]}")
      drop hang "h$((RANDOM % ${#hosts[@]}))" "${list[RANDOM % ${#list[@]}]}"
    done
  done >"$BATS_TEST_TMPDIR/wrong"
  cat "$BATS_TEST_TMPDIR/wrong"
  [ ! -s "$BATS_TEST_TMPDIR/wrong" ]
}
