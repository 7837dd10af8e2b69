#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  has_no_site
  FILE=$BATS_TEST_TMPDIR/lake/bad_nodes.txt
  OUTLAST_HOSTS=(n1 n2.example.org x1c0s0b0n0-hsn0.hsn.cm.example.org n4)
  TODAY=$(date -u +%F)
  printf 'n2  %s  ECC\nx1c0s0b0n0  %s  hang  strikes=2\nn9  2020-01-01  over\nlost\n' "$TODAY" "$TODAY" >"$FILE"
}

# The run's own copy of outlast, which is this checkout's.
has_python() {
  OUTLAST_PYTHON=$ROOT/.venv/bin/python
  mkdir -p "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION"
  ln -s "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast"
}

adds() { status_of ol_badnodes_add "$@" 2>"$OUTLAST_STATE/words"; }

@test "badnodes_known: the hosts as they were asked for, with the reason, by any of a node's names" {
  run -0 ol_badnodes_known "${OUTLAST_HOSTS[@]}" n9
  [ "$output" = $'n2.example.org ECC\nx1c0s0b0n0-hsn0.hsn.cm.example.org hang' ]
}

@test "badnodes_known: without a file nobody is bad; without an answer it is 2" {
  rm "$FILE"
  run -0 ol_badnodes_known n2
  [ "$output" = '' ]
  ol_shared_print() { return 124; }
  run -2 ol_badnodes_known n2
}

@test "badnodes_known: nothing is read through a link" {
  mv "$FILE" "$FILE.there"
  ln -s "$FILE.there" "$FILE"
  run -2 --separate-stderr ol_badnodes_known n2
}

@test "badnodes_known: a file of its own, where the job names one" {
  OUTLAST_BAD_NODES=$BATS_TEST_TMPDIR/ours
  printf 'n1 %s ECC\n' "$TODAY" >"$OUTLAST_BAD_NODES"
  run -0 ol_badnodes_known n1 n2.example.org
  [ "$output" = 'n1 ECC' ]
}

@test "badnodes_worst: of those that are asked for the one with the highest score, or nobody" {
  run -0 ol_badnodes_worst "${OUTLAST_HOSTS[@]}"
  [ "$output" = x1c0s0b0n0-hsn0.hsn.cm.example.org ]
  run -0 ol_badnodes_worst n1 n2.example.org
  [ "$output" = n2.example.org ]
  run -0 ol_badnodes_worst n1 n4
  [ "$output" = '' ]
  ol_shared_print() { return 124; }
  run -2 ol_badnodes_worst n2
}

@test "badnodes_exclude: the worst first, capped; nothing where no host can be left out" {
  run -0 ol_badnodes_exclude
  [ "$output" = $'x1c0s0b0n0\nn2' ]
  OUTLAST_EXCLUDE_CAP=1 run -0 ol_badnodes_exclude
  [ "$output" = x1c0s0b0n0 ]
  ol_sched_excludes() { return 1; }
  run -0 ol_badnodes_exclude
  [ "$output" = '' ]
}

@test "badnodes_add: by Python, one line a node" {
  has_python
  adds hang x1c0s0b0n0-hsn0.hsn.cm.example.org n1
  [ "$status" = 0 ]
  grep -qx "x1c0s0b0n0  $TODAY  hang  job=7.0.1  strikes=3" "$FILE"
  grep -qx "n1  $TODAY  hang  job=7.0.1" "$FILE"
  [ "$(wc -l <"$FILE")" = 5 ]
  grep -q "\"event\":\"struck\",\"nodes\":\"n1\",\"until\":\"$(date -u -d "$TODAY +14 days" +%F)\"}" "$OUTLAST_STATE/events.jsonl"
  grep -q "\"nodes\":\"x1c0s0b0n0\",\"until\":\"$(date -u -d "$TODAY +56 days" +%F)\"}" "$OUTLAST_STATE/events.jsonl"
}

@test "badnodes_add: by Bash where there is no Python, and the same strike once" {
  adds 'GPU lost' n2.example.org
  adds 'GPU lost' n2.example.org
  [ "$status" = 0 ]
  [ "$(grep -c '^n2 ' "$FILE")" = 2 ]
  grep -qx "n2  $TODAY  GPU_lost  job=7.0.1" "$FILE"
  has_python # which may have written it, and was too slow to say so
  adds 'GPU lost' n2.example.org
  [ "$(grep -c '^n2 ' "$FILE")" = 2 ]
  run -0 ol_badnodes_known n2
  [ "$output" = 'n2 GPU_lost' ]
}

@test "badnodes_add: half a strike, with Python and without" {
  OUTLAST_STRIKES=0.5 adds blind n1
  has_python
  OUTLAST_STRIKES=0.5 adds blind n4
  grep -qx "n1  $TODAY  blind  strikes=0.5  job=7.0.1" "$FILE"
  grep -qx "n4  $TODAY  blind  strikes=0.5  job=7.0.1" "$FILE"
}

@test "badnodes_add: with KILL near nobody waits for Python" {
  touch "$OUTLAST_STATE/term"
  ol_py_ask() { touch "$BATS_TEST_TMPDIR/asked"; }
  adds hang n1
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
  grep -q '^n1  ' "$FILE"
}

@test "badnodes_add: nobody for a cancelled job, nobody where too many are to blame, nobody without a name" {
  cp "$FILE" "$FILE.before"
  OUTLAST_CLASS=cancelled adds hang n1
  adds hang n1 n2 n4
  grep -q '3 of 4 nodes are to blame at once (hang)' "$OUTLAST_STATE/words"
  # shellcheck disable=SC2016 # a name out of a log
  adds hang '-x' '$(touch /tmp/x)'
  adds hang
  cmp "$FILE" "$FILE.before"
}

@test "badnodes_add: what cannot be written is a warning" {
  mv "$FILE" "$FILE.there"
  ln -s "$FILE.there" "$FILE"
  adds hang n1
  [ "$status" = 0 ]
  grep -q "could not write n1 into $FILE" "$OUTLAST_STATE/words"
  run -1 grep '^n1 ' "$FILE.there"
}
