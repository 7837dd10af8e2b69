# shellcheck shell=bash
# lib/lease.sh - one job at a time owns the run
#
# RUN/lease/000017 holds `job=ID restart=N host=H` of the seventeenth owner; the highest number owns the
# run, 000017.end says that its owner let go. A file is linked into place, so two jobs cannot make the same.
# It also fences a job that the scheduler has given up but that still runs (a cut-off batch host).
#
# Functions
#   ol_lease_take           become the owner. 0 done; 1 the run is another job's (OUTLAST_WHY says whose);
#                           2 the shared file system or the scheduler does not answer
#   ol_lease_is_lost        is there a newer owner? 0 yes, 1 no, 2 no answer
#   ol_lease_release        let go
#
# Sets     OUTLAST_GENERATION (six digits), OUTLAST_WHY
# Reads    OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_PARENT OUTLAST_LEASE_WAIT_S
# Needs    log, bounded, run
# Sourcing it defines the functions above and does nothing else.

# Print `000017 job=... restart=... host=... [ended]` of the newest lease, `000000` when there is none.
_ol_lease_look() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared_print bash -c 'cd "$1" || exit; last=000000
    for f in [0-9][0-9][0-9][0-9][0-9][0-9]; do [[ ! -e $f ]] || last=$f; done
    [[ $last == 000000 ]] && { echo 000000; exit; }
    read -r text <"$last"; ended=; [[ ! -e $last.end ]] || ended=ended
    echo "$last $text $ended"' _ "$OUTLAST_RUN_DIR/lease"
}

# Status 1: another job made that generation first; anything else: it could not be written.
_ol_lease_make() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" && printf "%s\n" "$3" >".new.$4" && ln ".new.$4" "$2" && s=0 || s=2
    rm -f ".new.$4"; [[ $s == 0 || ! -e $2 ]] || s=1; exit "$s"' _ \
    "$OUTLAST_RUN_DIR/lease" "$1" "job=$OUTLAST_JOB_ID restart=$OUTLAST_RESTART host=${HOSTNAME:-?}" "$OUTLAST_JOB_ID.$$"
}

# May the lease be taken from its holder? 0 yes; 1 no; 2 unknown; 3 not yet (our own parent is ending)
_ol_lease_is_free() {
  local holder=$1 restart=$2 state status=0
  if [[ $holder == "$OUTLAST_JOB_ID" ]]; then
    # The same job, requeued. With a higher count than ours we are the copy that was left behind.
    ((restart <= OUTLAST_RESTART)) || return 1
    return 0
  fi
  state=$(ol_sched_state "$holder") || status=$?
  ((status != 2)) || return 2
  ((status != 1)) || return 0
  case $state in
    state=running* | state=ending*)
      [[ $holder == "${OUTLAST_PARENT:-}" || $state == state=ending* ]] && return 3
      return 1
      ;;
  esac
  return 0
}

ol_lease_take() {
  local look holder restart waited_s=0 limit_s=${OUTLAST_LEASE_WAIT_S:-600} status
  while ((waited_s <= limit_s)); do
    look=$(_ol_lease_look) || return 2
    [[ $look == [0-9][0-9][0-9][0-9][0-9][0-9]* ]] || return 2 # no room on this node for the answer
    holder=${look#*job=}
    holder=${holder%% *}
    restart=${look#*restart=}
    restart=${restart%% *}
    printf -v OUTLAST_GENERATION '%06d' "$((10#${look%% *} + 1))"
    status=0
    [[ $look == 000000* || $look == *ended ]] || _ol_lease_is_free "$holder" "$restart" || status=$?
    OUTLAST_WHY="job $holder did not let go of the run within $limit_s s"
    case $status in
      0)
        _ol_lease_make "$OUTLAST_GENERATION" || status=$?
        ((status != 0)) || return 0
        OUTLAST_WHY="lease $OUTLAST_GENERATION could not be written"
        ((status != 1)) || ol_log_info "another job took lease $OUTLAST_GENERATION first; looking again"
        ;;
      1)
        OUTLAST_WHY="the run is owned by job $holder, which is running"
        return 1
        ;;
      2) OUTLAST_WHY="the scheduler does not say whether job $holder, which owns the run, has ended" ;;
    esac
    ol_run_pause 2 || return 2
    waited_s=$((waited_s + 2))
  done
  # Only a holder that was seen to end without letting go (3), or to be faster (1), is a no.
  return "$((status == 3 || status == 1 ? 1 : 2))"
}

ol_lease_is_lost() {
  local look
  look=$(_ol_lease_look) || return 2
  ((10#${look%% *} > 10#$OUTLAST_GENERATION))
}

ol_lease_release() {
  ol_shared touch "$OUTLAST_RUN_DIR/lease/$OUTLAST_GENERATION.end"
}
