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
