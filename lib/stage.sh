# shellcheck shell=bash
# lib/stage.sh - the chosen checkpoint, and no other, in sight of the trainer on every node
#
# A node's own disk is arranged there: by Python where the manifest has hashes (pyhelpers/outlast/sidecar/arrange.py, brought
# along by lib/bring.sh), else by ol_checkpoint_arrange.
#
# Functions
#   ol_stage   0 done; 1 could not (OUTLAST_WHY); 2 the job is told to end; 5 the checkpoint is bad, and in quarantine now;
#              6 another number of ranks has written it, and its format knows only that number
#
# Sets     OUTLAST_RESUME OUTLAST_RESUME_RANKS (of the launch that wrote it; empty: not known) OUTLAST_WHY, OUTLAST_BROUGHT (fields for the ledger: files kept, copied, linked)
# Reads    OUTLAST_RESUME_FROM OUTLAST_RESUME_STEP OUTLAST_NODE_LIST OUTLAST_STAGE_IN OUTLAST_STORAGE OUTLAST_CKPT_DIR OUTLAST_CKPT_PREFIX
#          OUTLAST_CKPT_MEMORY_GIB OUTLAST_NODES OUTLAST_RANKS_PER_NODE OUTLAST_STARTUP_S OUTLAST_SITE OUTLAST_RUN OUTLAST_RUN_DIR OUTLAST_PYTHON OUTLAST_LOCAL
# Needs    log, bounded, bring, ledger, mail, checkpoint, attempt, py
# Sourcing it defines the functions above and does nothing else.

ol_stage() {
  local status=0 said
  OUTLAST_BROUGHT=()
  _ol_stage_ranks || return
  if [[ $OUTLAST_STORAGE == shared ]]; then
    ol_checkpoint_drop_torn
    _ol_checkpoint_child ol_bounded "${OUTLAST_SHARED_LIMIT_S:-20}" ol_checkpoint_point "$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "${OUTLAST_RESUME_FROM##*/}" ||
      ol_log_warn "the file that names the newest checkpoint could not be written"
    OUTLAST_RESUME=${OUTLAST_RESUME_FROM:-}
    return 0
  fi
  OUTLAST_RESUME=${OUTLAST_RESUME_FROM:+$OUTLAST_CKPT_DIR/${OUTLAST_RESUME_FROM##*/}}
  _ol_stage_words "$OUTLAST_NODE_LIST"
  _ol_stage_on "$OUTLAST_NODE_LIST" arrange "$OUTLAST_RESUME_FROM" "$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" \
    "$OUTLAST_STAGE_IN" "$OUTLAST_RANKS_PER_NODE" "${OL_STAGE_WORDS[@]}" || status=$?
  if ((status == 0)); then
    _ol_stage_sum
    return 0
  fi
  said=$(_ol_stage_said failed | head -n 1)
  OUTLAST_WHY="could not put checkpoint ${OUTLAST_RESUME_STEP:-} on every node${said:+: ${said//$'\t'/: }}"
  ((status != 2)) || return 2
  [[ -n $said ]] || OUTLAST_WHY+="; what the launcher said is in $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART.log"
  said=$(_ol_stage_said bad)
  [[ -n $said ]] || return 1
  _ol_stage_bad
}

# Trainers adapt to another number of ranks, or cannot: their format knows.
_ol_stage_ranks() {
  local line answer now=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE)) nodes='NODES --set ranks_per_node=RANKS'
  OUTLAST_RESUME_RANKS=''
  [[ -n $OUTLAST_RESUME_FROM ]] || return 0
  line=$(ol_checkpoint_facts "$OUTLAST_RESUME_FROM")
  [[ $line =~ \"ranks\":([0-9]+) ]] || return 0
  OUTLAST_RESUME_RANKS=${BASH_REMATCH[1]}
  ((OUTLAST_RESUME_RANKS != now)) || return 0
  answer=$(ol_py_ask 60 sidecar reshard "$OUTLAST_RESUME_FROM") || answer=unknown
  ol_log_info "checkpoint $OUTLAST_RESUME_STEP was written by $OUTLAST_RESUME_RANKS ranks, this launch has $now: ${answer//$'\t'/: }"
  [[ $answer == no$'\t'* ]] || return 0
  OUTLAST_WHY="checkpoint $OUTLAST_RESUME_STEP was written by $OUTLAST_RESUME_RANKS ranks and cannot be loaded by the $now of this launch: ${answer#*$'\t'}"
  ((OUTLAST_RESUME_RANKS % OUTLAST_RANKS_PER_NODE != 0)) || nodes=$((OUTLAST_RESUME_RANKS / OUTLAST_RANKS_PER_NODE))
  OUTLAST_WHY+="; for $OUTLAST_RESUME_RANKS ranks write the script anew: bin/render $OUTLAST_SITE JOB --set run=$OUTLAST_RUN --nodes $nodes -o $OUTLAST_RUN_DIR/job.sh"
  return 6
}

# Which nodes have said WORD, and what: `HOST<tab>WORDS`.
_ol_stage_said() { sed -n "s/^$1"$'\t//p' "$OUTLAST_STATE/stage.log"; }

# For the ledger: how many files were on the nodes, were copied, are links; all nodes together.
_ol_stage_sum() {
  local kept copied linked sum=(0 0 0)
  while IFS=$'\t' read -r _ kept copied linked; do
    [[ $kept:$copied:$linked =~ ^[0-9]+:[0-9]+:[0-9]+$ ]] || continue
    sum=("$((sum[0] + kept))" "$((sum[1] + copied))" "$((sum[2] + linked))")
    OUTLAST_BROUGHT=(kept:="${sum[0]}" copied:="${sum[1]}" linked:="${sum[2]}")
  done < <(_ol_stage_said arranged)
}

# Without hashes there is nothing that Python could look at.
_ol_stage_has_hashes() {
  local line
  [[ -n $OUTLAST_RESUME_FROM ]] && line=$(ol_checkpoint_facts "$OUTLAST_RESUME_FROM") &&
    [[ $line =~ \"algorithm\":\"[a-z] ]]
}

# Sets OL_STAGE_WORDS: a comma list in pieces, as one word of a command line may have 128 KiB.
_ol_stage_words() { # LIST
  local rest=$1 piece
  OL_STAGE_WORDS=()
  while ((${#rest} > 100000)); do
    piece=${rest:0:100000}
    piece=${piece%,*}
    OL_STAGE_WORDS+=("$piece")
    rest=${rest:${#piece}+1}
  done
  OL_STAGE_WORDS+=("$rest")
}

_ol_stage_on() { # NODES VERB WORDS...
  local hosts=$1 text
  shift
  OL_BRING=()
  ! _ol_stage_has_hashes || ol_bring disk arrange || :
  text=$(declare -f ol_checkpoint_arrange ol_checkpoint_point ol_bring_here ol_bring_run _ol_stage_node _ol_stage_show)
  ol_sched_on_each "$OUTLAST_STARTUP_S" "$hosts" bash -c "$text; OUTLAST_CKPT_MEMORY_GIB=$OUTLAST_CKPT_MEMORY_GIB; _ol_stage_node \"\$@\"" outlast-stage \
    "$OUTLAST_LOCAL" "$OUTLAST_PYTHON" "${#OL_BRING[@]}" "${OL_BRING[@]}" "$@" >"$OUTLAST_STATE/stage.log" &
  _ol_attempt_await "$!" "$((OUTLAST_STARTUP_S + 10))"
}

# Runs on a node: its folder shows the checkpoint, or (check) a file of the durable one is read.
_ol_stage_node() { # LOCAL PYTHON COUNT FILE... arrange|check SRC DIR PREFIX ...
  umask 077
  mkdir -p "$1" || return
  (($3 == 0)) || ol_bring_here "$1/py" "${@:4:$3}" || return
  set -- "${@:1:3}" "${@:4+$3}"
  _ol_stage_show "$@" || return
  # What was put aside for a look would be in training's way in memory.
  [[ $OUTLAST_CKPT_MEMORY_GIB == 0 ]] || rm -rf "$6/.unused"
  [[ $4 == check ]] || ol_checkpoint_point "$6" "$7" "${5##*/}"
}

# A Python without the manifest's hash leaves it to the next one; where none has it, it is done without.
_ol_stage_show() { # LOCAL PYTHON COUNT arrange|check SRC DIR PREFIX ...
  local verb=$4 host checked words status
  # A launcher may hand on the HOSTNAME of the first host.
  read -r host </proc/sys/kernel/hostname
  host=${SLURMD_NODENAME:-$host}
  if (($3 > 0)); then
    for checked in checked unchecked; do
      status=0
      words=("${@:5}")
      [[ $verb == check ]] || words=("${@:5:5}" "$checked" "${@:10}")
      ol_bring_run "$1/py" arrange "$2" "$verb" "$host" "${words[@]}" || status=$?
      ((status == 4 || status == 127)) || return "$status"
    done
  fi
  [[ $verb == arrange ]] || return 1
  # What a node is to hold for itself it can hold as a link, too.
  [[ $8 == all ]] || set -- "${@:1:7}" none
  ol_checkpoint_arrange "${@:5:4}" || {
    printf 'failed\t%s\tno room, or the shared file system does not answer\n' "$host"
    return 1
  }
}

# A node reads bad bytes: is it the file, or the node? One that has not read it yet says so.
_ol_stage_bad() {
  local host path why reporters other second='' why_too left
  IFS=$'\t' read -r host path why < <(_ol_stage_said bad)
  reporters=$(_ol_stage_said bad | cut -f 1 | sed 's/\..*//')
  for other in ${OUTLAST_NODE_LIST//,/ }; do
    [[ $'\n'$reporters$'\n' == *$'\n'"${other%%.*}"$'\n'* ]] || second=$other
  done
  if [[ -n $second ]]; then
    _ol_stage_on "$second" check "$OUTLAST_RESUME_FROM" "$path" || :
    why_too=$(_ol_stage_said bad)
    if [[ -z $why_too ]]; then
      OUTLAST_WHY="checkpoint $OUTLAST_RESUME_STEP: $path $why as $host reads it, but not as $second does; tell the site of $host, and keep off it: OUTLAST_EXCLUDE='$host' in $OUTLAST_RUN_DIR/job.sh (not on PBS)"
      return 1
    fi
  fi
  OUTLAST_WHY="checkpoint $OUTLAST_RESUME_STEP is damaged: $path $why"
  ol_checkpoint_quarantine "$OUTLAST_RESUME_FROM" "$path $why" || return 1
  left=$(ol_checkpoint_durable) || left=0
  ol_log_warn "$OUTLAST_WHY; it is in quarantine"
  ol_ledger_add quarantined step:="$OUTLAST_RESUME_STEP" durable_step:="${left%% *}" why="$path $why" by=outlast
  ol_mail_send damaged "checkpoint $OUTLAST_RESUME_STEP is damaged" "$OUTLAST_WHY. It is in $OUTLAST_RUN_DIR/quarantine; the one before is taken: step ${left%% *}"
  return 5
}
