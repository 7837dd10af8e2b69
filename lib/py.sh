# shellcheck shell=bash
# lib/py.sh - the one door from Bash to Python
#
# Functions
#   ol_py SEC VERB ARGS...   run `outlast VERB ARGS` for at most SEC seconds. What fails costs a warning, never the run
#   ol_py_ask SEC VERB ARGS...   the same, for who needs to know: its status; 124 too slow, 127 the run has no copy yet
#   ol_py_become VERB ARGS...   become `outlast VERB ARGS`, without a limit (exec): call it in a subshell
#   ol_py_install            keep the run's own copy of the helpers (RUN/tool/VERSION), made by its first job
#
# Reads    OUTLAST_PYTHON (an interpreter), OUTLAST_PYTHON_PATH (that of outlast's environment), OUTLAST_ROOT,
#          OUTLAST_RUN_DIR, OUTLAST_JOB_ID, OUTLAST_VERSION
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

# Several processes of the job ask at the same time, so each has a file for its words. OUTLAST_JOB_ID tells a verb that
# no person has typed it.
_ol_py_run() { # SEC VERB ARGS...
  local limit_s=$1 tool=$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION err=$OUTLAST_STATE/py.err.$BASHPID status=0
  shift
  (cd / && OUTLAST_JOB_ID=$OUTLAST_JOB_ID PYTHONPATH=$tool PYTHONDONTWRITEBYTECODE=1 \
    ol_bounded "$limit_s" "$OUTLAST_PYTHON" -m outlast "$@" 2>"$err") ||
    status=$?
  ((status == 0)) || ol_log_warn "outlast $1 did not work (status $status): $(tail -n 1 "$err" 2>/dev/null)"
  rm -f "$err"
  return "$status"
}

ol_py() {
  _ol_py_run "$@" || return 0
}

ol_py_ask() {
  ol_shared test -e "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast" || return 127
  _ol_py_run "$@"
}

ol_py_become() {
  cd / && PYTHONPATH=$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION PYTHONDONTWRITEBYTECODE=1 exec "$OUTLAST_PYTHON" -m outlast "$@"
}

ol_py_install() {
  local tool=$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION
  ! ol_shared test -d "$tool" || return 0
  PYTHONPATH=$OUTLAST_ROOT/pyhelpers ol_bounded 120 "$OUTLAST_PYTHON_PATH" -m outlast toolcopy "$tool" ||
    ol_log_warn "no copy of outlast's helpers in $tool: reports and mails will be short"
}
