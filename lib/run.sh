# shellcheck shell=bash
# lib/run.sh - the run's folder on the shared file system, and the job's own on the node
#
# Functions
#   ol_run_begin SCRIPT     node-local state, names, hosts; from here on every message goes to the job's log
#   ol_run_open             make or check the run's folder
#   ol_run_keep_script      as the run's owner: keep the script for the successors
#   ol_run_keep_patterns    likewise: keep the user's own patterns of failures (crash.patterns) as RUN/patterns.toml
#   ol_run_note_sources     write down the commit of the project folder; takes a minute at most, so call it with &
#   ol_run_drop_ballast     the node's disk is full, or nobody writes any more: make room for our state
#   ol_run_pause SEC        sleep, but not on when the job is told to end (status 1)
#
# Sets     OUTLAST_OUT_FD (the scheduler's output file) OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_HOSTS OUTLAST_LOCAL OUTLAST_STATE
#          OUTLAST_CKPT_DIR OUTLAST_STARTED_S OUTLAST_PROJECT
# Reads    the settings; OUTLAST_START_DIR, the folder the script was started in
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

# Status 1: no folder of our own on this node. /tmp may be shared, so nobody else's folder is taken.
_ol_run_local() {
  local sum name old
  # Two queues of one machine may count alike. A job and its requeue share run and number, and of a copy that was
  # cut off with its host the last words may come when the next one has started: it cleans up after itself alone.
  sum=$(cksum <<<"$OUTLAST_RUN_DIR")
  name=outlast.$OUTLAST_JOB_ID.${sum%% *}
  # A requeued job finds what its first run left on this node.
  for old in "$OUTLAST_LOCAL_BASE/$name".*; do
    [[ ! -O $old ]] || rm -rf "$old"
  done
  OUTLAST_LOCAL=$OUTLAST_LOCAL_BASE/$name.$OUTLAST_RESTART
  mkdir -p "$OUTLAST_LOCAL_BASE" && mkdir -m 0700 "$OUTLAST_LOCAL" || return
  OUTLAST_STATE=$OUTLAST_LOCAL/state
  mkdir "$OUTLAST_STATE" && _ol_run_ballast && return
  # A disk that is full already: the state goes elsewhere, so that somebody is there to say so. (Not to /dev/shm:
  # where systemd has RemoveIPC, it empties that when the user leaves the node after a look at it.)
  ol_log_warn "no room in $OUTLAST_LOCAL_BASE on ${HOSTNAME:-this node}"
  OUTLAST_STATE=$(mktemp -d "/tmp/outlast.$OUTLAST_JOB_ID.XXXXXX")
}

# Room for our own state, given up when the ranks have filled the disk.
_ol_run_ballast() { head -c 8388608 /dev/zero >"$OUTLAST_LOCAL/ballast" 2>/dev/null; }

ol_run_drop_ballast() { rm -f "$OUTLAST_LOCAL/ballast"; }

# PBS has to be asked how often the job was restarted. Without an answer it was not: that is by far the most likely.
_ol_run_restart() {
  local try
  for try in 1 2 3; do
    ((try == 1)) || sleep 5
    ol_sched_restart && return
  done
  ol_log_warn "the scheduler does not say whether it started this job before; going on as if not"
  echo 0
}

_ol_run_hosts() {
  local try
  for try in 1 2 3; do
    ((try == 1)) || sleep 5
    mapfile -t OUTLAST_HOSTS < <(ol_sched_nodes)
    [[ -z ${OUTLAST_HOSTS[0]:-} ]] || return 0
  done
  ol_log_error "the scheduler does not say which nodes job $OUTLAST_JOB_ID has"
  return 1
}

ol_run_begin() {
  local script=$1
  printf -v OUTLAST_STARTED_S '%(%s)T' -1
  USER=${USER:-$(id -un)}
  # shellcheck disable=SC2153 # both names exist
  OUTLAST_RUN_DIR=$OUTLAST_RUNS_DIR/$OUTLAST_RUN
  OUTLAST_ATTEMPT=0 OUTLAST_GENERATION=000000 OUTLAST_DURABLE_AT_START=0 OUTLAST_DURABLE_STEP=0
  OUTLAST_EVIDENCE='' OUTLAST_FINGERPRINT='' OUTLAST_WHY='' OUTLAST_HOLD='' OUTLAST_BLAME=() OUTLAST_BLAME_WHY=''
  OUTLAST_SLOTS=() OUTLAST_DROPPED='' OUTLAST_MOVED='' OUTLAST_RUNG='' OUTLAST_SWAPPED=0 OUTLAST_LOST_S=0 OUTLAST_ENDED_S=''
  OUTLAST_JOB_ID=$(ol_sched_job_id) || return 1
  OUTLAST_RESTART=$(_ol_run_restart)
  _ol_run_hosts || return 1
  _ol_run_local || {
    OUTLAST_STATE='' # it may be somebody else's
    ol_log_error "no node-local folder: cannot make $OUTLAST_LOCAL on ${HOSTNAME:-this node}"
    return 1
  }
  ol_bounded_open
  cp "$script" "$OUTLAST_STATE/job.sh" || {
    ol_log_error "cannot copy $script to $OUTLAST_STATE on ${HOSTNAME:-this node}"
    return 1
  }
  if [[ $OUTLAST_STORAGE == local ]]; then
    OUTLAST_CKPT_DIR=$OUTLAST_LOCAL/checkpoints
    mkdir "$OUTLAST_CKPT_DIR"
  else
    OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints
  fi
  ol_log_info "run $OUTLAST_RUN, job $OUTLAST_JOB_ID; the log goes on in $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART.log"
  # The scheduler's output file is on the shared file system: a write to it may hang, and we with it.
  exec {OUTLAST_OUT_FD}>&1 >>"$OUTLAST_STATE/job.log" 2>&1
}

# Folders for the owner, readable by the group; in control/ the group may write, so that a teammate can stop the run.
_ol_run_make() {
  local shell=''
  ! declare -F ol_sched_shell_text >/dev/null || shell=$(ol_sched_shell_text)
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'umask 027; mkdir -p "$1" && cd "$1" &&
    mkdir -p checkpoints quarantine logs reports lease outbox tool &&
    { [[ -d control ]] || mkdir -m 2770 control; } && { [[ -s project_dir ]] || printf "%s\n" "$2" >project_dir; } &&
    { [[ -z $3 || -e tool/shell ]] || { printf "%s\n" "$3" >tool/shell && chmod 0750 tool/shell; }; }' _ \
    "$OUTLAST_RUN_DIR" "${OUTLAST_PROJECT_DIR:-$(ol_sched_submit_dir)}" "$shell"
}

# Every successor runs job.sh and tool/ as the owner: nobody else may be able to change them.
_ol_run_is_private() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" || exit
    for f in . job.sh tool; do
      [[ -e $f ]] || continue
      mode=$(stat -c "%a" "$f") || exit
      [[ -O $f && $mode =~ ^[0-7]?[0-7][0145][0145]$ ]] || { echo "outlast: $1/$f is not yours alone to write (mode $mode)"; exit 1; }
    done' _ "$OUTLAST_RUN_DIR"
}

# A job that its user submitted carries what was rendered last: that is what goes on. One of the chain, or a
# requeued one, may be older than that.
ol_run_keep_script() {
  [[ -z $OUTLAST_PARENT && $OUTLAST_RESTART == 0 ]] || return 0
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c '[[ -s $1 ]] || exit 1; cmp -s "$1" "$2" || { umask 077; cp "$1" "$2.new" && chmod 0750 "$2.new" && mv -f "$2.new" "$2"; }' _ \
    "$OUTLAST_STATE/job.sh" "$OUTLAST_RUN_DIR/job.sh" || ol_log_warn "cannot write $OUTLAST_RUN_DIR/job.sh"
}

# A later edit of the user's file, or its loss, changes nothing for the chain.
ol_run_keep_patterns() {
  [[ -n $OUTLAST_CRASH_PATTERNS && -z $OUTLAST_PARENT && $OUTLAST_RESTART == 0 ]] || return 0
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'umask 027; cp -- "$1" "$2.new" && mv -fT "$2.new" "$2"' _ "$OUTLAST_CRASH_PATTERNS" \
    "$OUTLAST_RUN_DIR/patterns.toml" || ol_log_warn "cannot copy $OUTLAST_CRASH_PATTERNS: what the run has of it stays"
}

# Which sources the trainer has, for the manifests of its checkpoints: STATE/sources, `COMMIT CHANGED-FILES`, no file where
# nobody can say. Untracked files do not count: logs lie there. Nothing of the repository runs (fsmonitor), none of it is locked.
ol_run_note_sources() {
  local answer
  # shellcheck disable=SC2016 # expanded by the child
  answer=$(ol_bounded_print 60 env GIT_OPTIONAL_LOCKS=0 bash -c 'cd "$1" && commit=$(git rev-parse --verify HEAD) || exit
    changes=$(git -c core.fsmonitor=false status --porcelain --untracked-files=no | wc -l; exit "${PIPESTATUS[0]}") || exit
    printf "%s %d\n" "$commit" "$changes"' _ "$OUTLAST_PROJECT" 2>/dev/null </dev/null) || return 0
  [[ $answer =~ ^[0-9a-f]{40,64}\ [0-9]+$ ]] || return 0
  printf '%s\n' "$answer" >"$OUTLAST_STATE/sources.new" && mv "$OUTLAST_STATE/sources.new" "$OUTLAST_STATE/sources"
}

# Status 1: not usable, the reason is logged; 2: the shared file system does not answer.
ol_run_open() {
  local status=0
  _ol_run_make || status=$?
  ((status != 124)) || return 2
  ((status == 0)) || {
    ol_log_error "cannot make $OUTLAST_RUN_DIR; set runs_dir to a folder that you can write"
    return 1
  }
  _ol_run_is_private || return
  OUTLAST_PROJECT=$(ol_shared_print cat "$OUTLAST_RUN_DIR/project_dir") || return 2
}

ol_run_pause() {
  local tick
  for ((tick = 0; tick < $1; tick++)); do
    [[ ! -e $OUTLAST_STATE/term ]] || return 1
    ol_bounded_nap 1
  done
}
