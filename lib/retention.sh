# shellcheck shell=bash
# lib/retention.sh - which durable checkpoints stay, and what becomes of the others (docs/checkpoints.md, "What stays")
#
# Functions
#   ol_retention_prune   take durable ones away that need not be kept; they are gone after a time of grace
#   ol_retention_empty   remove those that wait for its end: the run is finished
#
# Reads    OUTLAST_CKPT_PREFIX OUTLAST_CKPT_KEEP OUTLAST_CKPT_KEEP_BEST OUTLAST_CKPT_KEEP_EVERY OUTLAST_CKPT_GRACE_S
#          OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_GENERATION
# Needs    bounded, checkpoint, hook, py
# Sourcing it defines the functions above and does nothing else.

# Remove what a killed removal or copy has left, and print how many checkpoints there are.
_ol_retention_sweep() { # CHECKPOINTS PREFIX
  cd "$1" && rm -rf .trash-* .incoming-* && _ol_checkpoint_marked "$2" | wc -l
}

# What waits for the end of its grace is called .removed-NAME.UNTIL.job, and its manifest, of a file, a dot more
# (checkpoint/trash.py; what a person has removed, without .job, is left to `outlast ckpt prune`).
# Remove all of a job's. Renamed first: nobody may have back what is half removed.
_ol_retention_make_room() { # CHECKPOINTS
  local path
  for path in "$1"/.removed-*.job; do
    [[ ! -e $path ]] || mv "$path" "$1/.trash-${path##*/.removed-}"
  done
  rm -rf "$1"/.trash-* "$1"/..removed-*.job.MANIFEST.json
}

# Remove those of them whose time is over, and all but two.
_ol_retention_expire() { # NOW, in the folder
  local name until count=0
  while read -r until name; do
    count=$((count + 1))
    ((until <= $1 || count > 2)) || continue
    mv "$name" ".trash-${name#.removed-}" && rm -rf ".trash-${name#.removed-}" ".$name.MANIFEST.json"
  done < <(for name in .removed-*.job; do
    until=${name%.job}
    [[ ! -e $name ]] || printf '%d %s\n' "${until##*.}" "$name"
  done | sort -rn)
}

# Only what has a manifest of ours is taken; renamed first, so that a half removed one is never offered. Two stay
# whatever is asked for: the newest may turn out to be damaged. So does what a person has pinned (outlast ckpt pin), and
# what Python wanted to keep when it last decided, the best one for example.
_ol_retention_thin() { # CHECKPOINTS PREFIX KEEP EVERY READING GRACE_S
  local step name now_s aside
  cd "$1" || return
  printf -v now_s '%(%s)T' -1
  _ol_checkpoint_marked "$2" | tail -n "+$((($3 > 2 ? $3 : 2) + 1))" | while read -r step name; do
    [[ ! -e .$name.pinned ]] || continue
    ((($4 == 0 || step % $4 > 0) && step != $5)) || continue
    ! grep -qsxF -e "$name" .kept || continue
    aside=.removed-$name.$((now_s + $6)).job
    [[ ! -e .$name.MANIFEST.json ]] || mv ".$name.MANIFEST.json" ".$aside.MANIFEST.json"
    mv "$name" "$aside"
  done
  _ol_retention_expire "$now_s"
}

# Python knows the losses. A file system that it waited for in vain will not answer us
# either, and what is another job's now (3) is left alone.
ol_retention_prune() {
  local count reading status=0
  reading=$(ol_hook_reading)
  count=$(_ol_checkpoint_child ol_bounded_print 600 _ol_retention_sweep "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_CKPT_PREFIX") || return
  ((count > OUTLAST_CKPT_KEEP)) || return 0
  ol_py_ask 600 sidecar prune "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_KEEP" "$OUTLAST_CKPT_KEEP_BEST" \
    "$OUTLAST_CKPT_KEEP_EVERY" "$OUTLAST_CKPT_GRACE_S" "$OUTLAST_JOB_ID" "$OUTLAST_GENERATION" ${reading:+"$reading"} >/dev/null || status=$?
  [[ $status != 0 && $status != 3 && $status != 124 ]] || return "$status"
  _ol_checkpoint_child ol_bounded 600 _ol_retention_thin "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_CKPT_PREFIX" \
    "$OUTLAST_CKPT_KEEP" "$OUTLAST_CKPT_KEEP_EVERY" "${reading:--1}" "$OUTLAST_CKPT_GRACE_S"
}

ol_retention_empty() {
  _ol_checkpoint_child ol_bounded 600 _ol_retention_make_room "$OUTLAST_RUN_DIR/checkpoints"
}
