#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text of the stand-in; a test is a subshell, and that is wanted
load job

# Instead of Python: does TEXT, with Python's arguments.
python() {
  printf '#!/bin/bash\n%s\n' "$1" >"$BATS_TEST_TMPDIR/python"
  chmod +x "$BATS_TEST_TMPDIR/python"
  OUTLAST_PYTHON=$BATS_TEST_TMPDIR/python OUTLAST_PYTHON_PATH=$BATS_TEST_TMPDIR/python OUTLAST_ROOT=/opt/outlast
}

@test "py: runs the verb with the run's own copy of the helpers, and prints what it says" {
  python 'echo "$PYTHONPATH $PWD $*"'
  run -0 ol_py 60 summary "/lake/my run"
  [ "$output" = "$OUTLAST_RUN_DIR/tool/1.0 / -m outlast summary /lake/my run" ]
}

@test "py: what fails costs one line, with its last words, and never the run" {
  python 'echo "Traceback ..." >&2; echo "KeyError: t" >&2; exit 1'
  run -0 ol_py 60 summary
  [ "${#lines[@]}" = 1 ]
  [[ $output == *"outlast summary did not work (status 1): KeyError: t" ]]
}

@test "py: a verb can tell that no person has typed it" {
  python 'echo "$OUTLAST_JOB_ID"'
  run -0 ol_py 60 summary
  [ "$output" = 7 ]
}

@test "py: what hangs is given up" {
  python 'exec sleep 60'
  run -0 ol_py 1 summary
  [[ $output == *"outlast summary did not work (status 124)"* ]]
}

@test "py: a Python that is gone is a line in the log" {
  OUTLAST_PYTHON=/gone/python3
  run -0 ol_py 60 summary
  [[ $output == *"did not work (status 127)"* ]]
}

@test "py_install: the run's first job makes the copy, the others find it" {
  python 'echo "$PYTHONPATH $*" >>'"$BATS_TEST_TMPDIR/calls"'; mkdir -p "${@: -1}"'
  ol_py_install
  ol_py_install
  [ "$(cat "$BATS_TEST_TMPDIR/calls")" = "/opt/outlast/pyhelpers -m outlast toolcopy $OUTLAST_RUN_DIR/tool/1.0" ]
}

@test "py_install: without a copy the run goes on" {
  python 'exit 1'
  run -0 ol_py_install
  [[ $output == *"no copy of outlast's helpers"* ]]
}
