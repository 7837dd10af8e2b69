#!/usr/bin/env bats
# Whose fault is a hang?
load job

says() { # HOST WORDS...
  mkdir -p "$BATS_TEST_TMPDIR/stacks"
  printf '%s\n' "${@:2}" >"$BATS_TEST_TMPDIR/stacks/$1.txt"
}
waits() { says "$1" "stacks of $1" '== process 7, rank 0: python3 train.py' 'Name: python3 State: S (sleeping) PPid: 3'; }
stopped() { says "$1" "stacks of $1" '== process 7, rank 2: python3 train.py' 'Name: python3 State: T (stopped) PPid: 3'; }
suspect() { ol_suspect "$BATS_TEST_TMPDIR/stacks" "$1"; }

@test "suspect: the one node with a stopped rank, whichever it is" {
  local host
  for host in n1 n2 n3; do
    waits n1
    waits n2
    waits n3
    stopped "$host"
    run -0 suspect n1.site,n2.site,n3.site
    [ "$output" = "$host.site hang" ]
  done
}

@test "suspect: the one node that did not answer, and the one without a rank" {
  waits n1
  waits n2
  says n3 'no answer'
  run -0 suspect n1,n2,n3
  [ "$output" = "n3 no_answer" ]
  rm "$BATS_TEST_TMPDIR/stacks/n3.txt"
  run -0 suspect n1,n2,n3
  [ "$output" = "n3 no_answer" ]
  says n3 'stacks of n3' 'no process of this launch is here'
  run -0 suspect n1,n2,n3
  [ "$output" = "n3 hang" ]
}

@test "suspect: nobody, where all wait, several are unlike the others, or there is no other" {
  waits n1
  waits n2
  waits n3
  run -0 suspect n1,n2,n3
  [ "$output" = "" ]
  stopped n1
  says n3 'no answer'
  run -0 suspect n1,n2,n3
  [ "$output" = "" ]
  run -0 suspect n1
  [ "$output" = "" ]
}

# ---- What the flight recorders add: nodes of two ranks that all wait.

trains() { # HOST RANK...
  local rank words=()
  for rank in "${@:2}"; do words+=("== process 1$rank, rank $rank: python3 train.py" 'Name: python3 State: S (sleeping) PPid: 3'); done
  says "$1" "stacks of $1" "${words[@]}"
}
all_train() { trains n1 0 1 && trains n2 2 3 && trains n3 4 15; }
recorders() { printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/stacks/flight"; }

@test "suspect: the one node whose ranks are waited for; not surely, if some have told nothing" {
  all_train
  recorders 'behind 2' 'behind 3'
  run -0 suspect n1.site,n2.site,n3.site
  [ "$output" = 'n2.site behind' ]
  recorders 'behind 2' 'silent 0'
  run -0 suspect n1,n2,n3
  [ "$output" = 'n2 behind weak' ]
  recorders 'behind 2' 'unread 1'
  run -0 suspect n1,n2,n3
  [ "$output" = 'n2 behind weak' ]
  recorders 'behind 2' 'behind 5'
  run -0 suspect n1,n2,n3
  [ "$output" = 'n2 behind weak' ]
}

@test "suspect: nobody, where those waited for are on several nodes, on none, or there is no other node" {
  all_train
  recorders 'behind 2' 'behind 4'
  run -0 suspect n1,n2,n3
  [ "$output" = '' ]
  recorders 'behind 5'
  run -0 suspect n1,n2,n3
  [ "$output" = '' ]
  recorders 'silent 2'
  run -0 suspect n1,n2,n3
  [ "$output" = '' ]
  recorders 'behind 0'
  run -0 suspect n1
  [ "$output" = '' ]
}

@test "suspect: a stopped rank says more than numbers; where several are unlike the others numbers only make a suspect" {
  all_train
  says n3 'stacks of n3' '== process 7, rank 4: python3 train.py' 'Name: python3 State: T (stopped) PPid: 3'
  recorders 'behind 2'
  run -0 suspect n1,n2,n3
  [ "$output" = 'n3 hang' ]
  says n1 'no answer'
  run -0 suspect n1,n2,n3
  [ "$output" = 'n2 behind weak' ]
}
