#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text for another shell; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  TOOL=$OUTLAST_RUN_DIR/tool/1.0/outlast/sidecar NODE=$BATS_TEST_TMPDIR/n2
  mkdir -p "$TOOL"
  cp "$ROOT"/pyhelpers/outlast/sidecar/{disk,wire,agent,arrange}.py "$TOOL"
}

brings() { status_of ol_bring "$@" 2>>"$OUTLAST_STATE/job.log"; }
# As a launcher does it, without what this shell knows.
on_the_node() { env -i PATH="$PATH" bash -c "$(declare -f ol_bring_here ol_bring_run); $1" node "${@:2}"; }

@test "bring: a file arrives on a node as it is, whatever is in it" {
  printf 'text = "%%s \\n $HOME `id` \x27quoted\x27 é"\n\n\nend = 1\n' >"$TOOL/agent.py"
  brings disk wire agent
  on_the_node 'ol_bring_here "$@"' "$NODE/py" "${OL_BRING[@]}"
  cmp "$TOOL/agent.py" "$NODE/py/outlast/sidecar/agent.py"
  cmp "$TOOL/disk.py" "$NODE/py/outlast/sidecar/disk.py"
  [ "$(entries "$NODE/py/outlast/sidecar")" = "__init__.py agent.py disk.py wire.py" ]
}

@test "bring: what nodes are brought is small enough for a word, and finds all that it imports" {
  local word
  brings disk wire agent arrange
  for word in "${OL_BRING[@]}"; do [ "$(wc -c <<<"$word")" -lt 65536 ]; done
  on_the_node 'ol_bring_here "$@"' "$NODE/py" "${OL_BRING[@]}"
  # Without words they end where they would take them apart.
  run on_the_node 'cd /; ol_bring_run "$1" agent python3' "$NODE/py"
  [[ $output == *"not enough values to unpack (expected 7, got 0)"* ]]
  run on_the_node 'cd /; ol_bring_run "$1" arrange python3' "$NODE/py"
  [[ $output == *"not enough values to unpack"* ]]
  [ "$(find "$NODE" -name '*.pyc')" = "" ]
}

@test "bring: the run's copy is read once in a job" {
  brings disk
  rm -r "$OUTLAST_RUN_DIR/tool"
  brings disk
  [ "$status ${#OL_BRING[@]}" = "0 1" ]
  brings disk wire agent
  [ "$status ${#OL_BRING[@]}" = "1 0" ]
}

@test "bring: without room on this node it goes along all the same, and a node without room says so" {
  echo taken >"$OUTLAST_LOCAL/py"
  brings disk
  [ "$status ${#OL_BRING[@]}" = "0 1" ]
  echo taken >"$NODE"
  run -1 on_the_node 'ol_bring_here "$@"' "$NODE/py" "${OL_BRING[@]}"
}

# A Python of the node that says CODE: says NAME CODE
says() {
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/bash\n[[ $1 != -c ]] || exit %d\necho "$0 ${*:4}" >>%q\nexit %d\n' \
    "${3:-0}" "$BATS_TEST_TMPDIR/ran" "$2" >"$BATS_TEST_TMPDIR/bin/$1"
  chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}
# ol_bring_run, with the node's own Python out of the way.
runs() {
  eval "$(declare -f ol_bring_run | sed 's|/usr/bin/python3|/nowhere/python3|')"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH status_of ol_bring_run "$NODE" agent "$BATS_TEST_TMPDIR/bin/own" a 'b c'
}

@test "bring: a Python that is too old is none, one that cannot leaves it to the next, and the last one's word counts" {
  says python3 0 1
  says own 3
  runs
  [ "$status $(cat "$BATS_TEST_TMPDIR/ran")" = "3 $BATS_TEST_TMPDIR/bin/own a b c" ]
  says python3 4
  runs
  [ "$status $(wc -l <"$BATS_TEST_TMPDIR/ran")" = "3 3" ]
  says own 4
  runs
  [ "$status" = 4 ]
  says python3 1
  runs
  [ "$status" = 1 ]
}

@test "bring: no Python at all is a status of its own" {
  says python3 0 1
  says own 0 1
  runs
  [ "$status" = 127 ]
}
