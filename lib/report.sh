# shellcheck shell=bash
# lib/report.sh - what a person reads after a failure, a hold and the end of the run (docs/report.md)
#
# Functions
#   ol_report_start          write the report of the attempt that has just ended and send what waits, while the job goes on
#   ol_report_finish SEC     write what is missing, wait for it at most SEC seconds
#
# Reads    OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_ATTEMPT OUTLAST_LOG (the attempt's log, on this node)
# Needs    courier, mail, py
# Sourcing it defines the functions above and does nothing else.

# The ledger has to be there first. A child that is killed or hangs costs a report, nothing else.
ol_report_start() {
  (
    trap - TERM USR1 EXIT
    ol_courier_carry 30
    ol_report_finish 60
    ol_mail_finish 40
  ) &
}

ol_report_finish() {
  local log=()
  [[ ! -s ${OUTLAST_LOG:-} ]] || log=(--log "$OUTLAST_JOB_ID.$OUTLAST_RESTART.$OUTLAST_ATTEMPT=$OUTLAST_LOG")
  ol_py "$1" report "$OUTLAST_RUN_DIR" --write "${log[@]}"
}
