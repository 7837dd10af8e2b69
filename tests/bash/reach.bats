#!/usr/bin/env bats
# shellcheck disable=SC2034 # read by lib/reach.sh
load job

setup() {
  a_job
  OUTLAST_HOSTS=(n1)
  ol_sched_on_each() { # SEC NODES CMD: fails where one of the nodes is in $BAD
    echo "$2" >>"$SCHED/told"
    local node
    for node in ${2//,/ }; do [[ " $BAD " != *" $node "* ]] || return 1; done
  }
}

nodes() { seq -s, -f 'm%g' 1 "$1"; }

@test "reach: one question where all answer" {
  BAD=''
  run -0 ol_reach_failing 1 "$(nodes 1000)" true
  [ "$output" = "" ]
  [ "$(wc -l <"$SCHED/told")" = 1 ]
}

@test "reach: those that fail are found among many, in groups" {
  BAD='m1 m500 m777'
  run -0 ol_reach_failing 1 "$(nodes 1000)" true
  [ "$output" = $'m1\nm500\nm777' ]
  (($(wc -l <"$SCHED/told") < 100))
  run -0 ol_reach_failing 1 m9,m1 true
  [ "$output" = m1 ]
}

@test "reach: silent are those that fail twice" {
  BAD='m2'
  run -0 ol_reach_silent 1 m1,m2,m3
  [ "$output" = m2 ]
  ol_reach_failing() { [[ -e $SCHED/twice ]] || echo m3 && touch "$SCHED/twice"; }
  run -0 ol_reach_silent 1 m1,m2,m3
  [ "$output" = "" ]
}

@test "reach: nobody is silent by the word of a launcher that does not work" {
  BAD='n1 m2'
  run -2 ol_reach_silent 1 m1,m2
  [ "$output" = "" ]
}

@test "reach: a launcher that does not work is asked about our own node, and not in groups" {
  BAD="n1 $(nodes 2000 | tr , ' ')"
  run -2 ol_reach_failing 1 "$(nodes 2000)" true
  [ "$output" = "" ]
  [ "$(wc -l <"$SCHED/told")" = 2 ]
}

@test "reach: where all groups of many nodes fail nobody can say; a few that all fail are told" {
  BAD=$(nodes 2000 | tr , ' ')
  run -2 ol_reach_failing 1 "$(nodes 2000)" true
  [ "$(wc -l <"$SCHED/told")" = 10 ]
  run -0 ol_reach_failing 1 m3,m1,m2 true
  [ "$output" = $'m3\nm1\nm2' ]
}

@test "reach: never more than 8 launchers at once" {
  BAD=$(seq -s' ' -f 'm%g' 1 70)
  ol_sched_on_each() {
    local node running
    : >"$SCHED/runs.$BASHPID"
    running=("$SCHED"/runs.*)
    ((${#running[@]} <= 8)) || : >"$SCHED/too_many"
    [[ $2 != *,* ]] || sleep 0.1
    rm "$SCHED/runs.$BASHPID"
    for node in ${2//,/ }; do [[ " $BAD " != *" $node "* ]] || return 1; done
  }
  run -0 ol_reach_failing 1 "$(nodes 400)" true
  [ "${#lines[@]}" = 70 ]
  [ ! -e "$SCHED/too_many" ]
}
