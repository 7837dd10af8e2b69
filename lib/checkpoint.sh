# shellcheck shell=bash
# lib/checkpoint.sh - checkpoints: node-local while training, durable beside it
#
# A checkpoint is an entry PREFIX-and-number in a folder: a folder (checkpoint-600) or a file (step-600.ckpt). It
# is complete when the preset's last file is there and nothing in it has changed for a while. It is durable when it
# lies in RUN/checkpoints/ with a MANIFEST.json, which is written last: inside a folder, beside a file that the
# trainer wrote there itself. A file that is copied there lies in a folder of its name. What is copied here lies whole on
# one node; of what many nodes wrote to disks of their own lib/coordinator.sh makes durable ones.
#
# Functions
#   ol_checkpoint_complete [QUIET_S]  print `STEP PATH` of the complete checkpoints where the trainer writes, by step
#   ol_checkpoint_newest              the same of all there are, whole or not
#   ol_checkpoint_is_written          is the trainer writing one right now? 0 yes
#   ol_checkpoint_is_in_parts         do several nodes hold parts of one, each on its own disk? 0 yes
#   ol_checkpoint_keep STEP PATH      make one durable: 0 done, 1 could not, 3 the run is not ours any more
#   ol_checkpoint_durable             print `STEP PATH` of the newest whole durable checkpoint; 1 none; 2 no answer
#   ol_checkpoint_marked_count        print how many durable ones there are
#   ol_checkpoint_quarantine PATH WHY take a durable one out of use
#   ol_checkpoint_drop_torn           shared storage: move what never got complete to quarantine/
#   ol_checkpoint_attempt             in a process that outlives launches: which one is the last
#   ol_checkpoint_facts PATH          print the first line of its manifest
#   ol_checkpoint_point DIR PREFIX NAME   let the file by which a trainer finds its checkpoint name this one (empty: none)
#   ol_checkpoint_arrange SRC DIR PREFIX all|none   on a node: let DIR hold SRC's checkpoint and no other, as a copy or a link
#
# Files    OUTLAST_STATE/ranks     `running`, or `ended EPOCH CODE`; written by lib/attempt.sh and lib/watch.sh
#          OUTLAST_STATE/attempt   `NUMBER HOSTS`, and the checkpoint that it resumed from; written by lib/attempt.sh
#          OUTLAST_STATE/sources   the trainer's commit and how many files differ from it; written by lib/run.sh
# Reads    OUTLAST_CKPT_DIR OUTLAST_CKPT_PREFIX OUTLAST_CKPT_COMPLETE OUTLAST_CKPT_QUIET_S OUTLAST_STORAGE
#          OUTLAST_SHARDED OUTLAST_NODES OUTLAST_RUN_DIR OUTLAST_JOB_ID OUTLAST_GENERATION OUTLAST_RANKS_PER_NODE
#          OUTLAST_NODE_LIST OUTLAST_VERSION
# Needs    log, bounded, ledger, retention, versions, whole
# Sourcing it defines the functions above and does nothing else.

# On a node a link is ours (ol_checkpoint_arrange): it leads to a durable one, on a file system that may hang, so nobody
# follows it.
_ol_checkpoint_list() { # DIR PREFIX COMPLETE SINCE; what changed later than SINCE (a date) is left out
  local path step changed
  for path in "$1/$2"[0-9]*; do
    step=${path##*/"$2"}
    step=${step%%[!0-9]*}
    [[ -n $step ]] || continue
    if [[ -L $path && ${OUTLAST_STORAGE:-} == local ]]; then
      printf '%d %s\n' "$((10#$step))" "$path"
      continue
    fi
    [[ -e $path ]] || continue
    [[ -z $3 || -L $path/$3 || -e $path/$3 ]] || continue
    changed=''
    [[ -z $4 ]] || changed=$(find "$path" -newermt "$4" -print -quit 2>/dev/null) || changed=unknown
    [[ -n $changed ]] || printf '%d %s\n' "$((10#$step))" "$path"
  done | sort -n
}

# Is one being written: a folder without its last file?
_ol_checkpoint_half() { # DIR PREFIX COMPLETE
  local path
  [[ -n $3 ]] || return 1
  for path in "$1/$2"[0-9]*; do
    [[ -L $path || ! -d $path || -L $path/$3 || -e $path/$3 ]] || return 0
  done
  return 1
}

# Without a last file quiet is the only proof, and it is one only while the writer lives: what a killed rank
# was writing is quiet for ever. STATE/ranks says `running`, or `ended EPOCH CODE`; a rank that ended with 0
# has written all. Prints the date for _ol_checkpoint_list; status 1: nothing can be proven.
_ol_checkpoint_since() { # QUIET_S
  local quiet_s=$1 word='' end_s code
  if [[ -z $OUTLAST_CKPT_COMPLETE ]]; then
    read -r word end_s code 2>/dev/null <"$OUTLAST_STATE/ranks"
    [[ -n $word ]] || return 1
    quiet_s=$OUTLAST_CKPT_QUIET_S
    if [[ $word == ended && $code == 0 ]]; then
      quiet_s=0
    elif [[ $word == ended ]]; then
      printf '@%d\n' "$((end_s - quiet_s))"
      return
    fi
  fi
  ((quiet_s == 0)) || printf -- '-%d seconds\n' "$quiet_s"
}

# On the shared file system a look may hang, so a child takes it.
_ol_checkpoint_look() { # FUNCTION [SINCE]
  local args=("$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_COMPLETE" "${@:2}")
  if [[ $OUTLAST_STORAGE == local ]]; then
    "$1" "${args[@]}"
  else
    ol_shared_print bash -c "$(declare -f "$1"); $1 \"\$@\"" _ "${args[@]}"
  fi
}

ol_checkpoint_complete() {
  local since
  since=$(_ol_checkpoint_since "${1:-$OUTLAST_CKPT_QUIET_S}") || return 0
  if [[ $OUTLAST_STORAGE == local ]]; then
    _ol_checkpoint_look _ol_checkpoint_list "$since"
  else
    _ol_checkpoint_look _ol_checkpoint_list "$since" | ol_whole_only
  fi
}
# The newest entry, whole or not.
ol_checkpoint_newest() {
  local OUTLAST_CKPT_COMPLETE=''
  _ol_checkpoint_look _ol_checkpoint_list ''
}
ol_checkpoint_is_written() { _ol_checkpoint_look _ol_checkpoint_half; }

ol_checkpoint_is_in_parts() { [[ $OUTLAST_STORAGE == local && $OUTLAST_SHARDED == 1 && $OUTLAST_NODES != 1 ]]; }

# Sets OUTLAST_ATTEMPT and OUTLAST_NODE_LIST, which stay as they are before the first launch.
ol_checkpoint_attempt() {
  read -r OUTLAST_ATTEMPT OUTLAST_NODE_LIST 2>/dev/null <"$OUTLAST_STATE/attempt" || return 0
}

# What made a checkpoint, as JSON fields: what is not known is null or empty.
_ol_checkpoint_origin() {
  local commit='' changes='' parent='' ranks=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE)) hosts=${OUTLAST_NODE_LIST:-} _
  [[ $OUTLAST_STORAGE == shared ]] || hosts=${hosts%%,*}
  read -r commit changes 2>/dev/null <"$OUTLAST_STATE/sources"
  { read -r _ && IFS= read -r parent; } 2>/dev/null <"$OUTLAST_STATE/attempt"
  # What a job finds at its start, another launch has written.
  ol_ledger_json world_size:="$ranks" ranks:="${OUTLAST_NODE_LIST:+$ranks}" commit="$commit" dirty:="${changes:+$((changes > 0))}" parent="$parent"
  printf ',"hosts":[%s],"versions":{"outlast":"%s"%s}' "${hosts:+\"${hosts//,/\",\"}\"}" "$OUTLAST_VERSION" "$(ol_versions_json)"
}

# Print the manifest of the checkpoint PATH. Needs nothing but Bash and find.
_ol_checkpoint_manifest() { # STEP PATH
  local line fields name bytes total=0 files='' count=0
  while IFS= read -r -d '' line; do
    bytes=${line%% *}
    name=${line#* }
    fields=$(ol_ledger_json "path=${name:-${2##*/}}" "bytes:=$bytes")
    files+="${files:+,$'\n'}    {${fields#,}}"
    total=$((total + bytes))
    count=$((count + 1))
  done < <(find "$2" -type f ! -name MANIFEST.json ! -name MANIFEST.json.new -printf '%s %P\0' | sort -z -k 2)
  printf '{"step":%d,"files":%d,"bytes":%d,"run":"%s","job":"%s","restart":%d,"attempt":%d,"written":%(%s)T%s,\n  "list":[\n%s\n  ]}\n' \
    "$1" "$count" "$total" "$OUTLAST_RUN" "$OUTLAST_JOB_ID" "$OUTLAST_RESTART" "$OUTLAST_ATTEMPT" -1 "$(_ol_checkpoint_origin)" "$files"
}

# The next functions run in children, with pipefail: a file system may hang, and what it says may be an error.
# Print `FILES BYTES`: what a manifest says, what a folder holds.
_ol_checkpoint_said() { sed -nE '1s/.*"files":([0-9]+),"bytes":([0-9]+).*/\1 \2/p' "$1"; }
_ol_checkpoint_found() {
  find "$1" -type f ! -name MANIFEST.json ! -name MANIFEST.json.new -printf '%s\n' | awk '{ n++; s += $1 } END { printf "%d %d\n", n, s }'
}

# Print where the manifest of PATH is.
_ol_checkpoint_paper() {
  local name=${1##*/}
  if [[ -d $1 ]]; then printf '%s\n' "$1/MANIFEST.json"; else printf '%s\n' "${1%"$name"}.$name.MANIFEST.json"; fi
}

_ol_checkpoint_head() { head -n 1 "$(_ol_checkpoint_paper "$1")"; }
ol_checkpoint_facts() {
  _ol_checkpoint_child ol_bounded_print "${OUTLAST_SHARED_LIMIT_S:-20}" _ol_checkpoint_head "$1"
}

# DeepSpeed's and Megatron's (pyhelpers/outlast/checkpoint/): written behind a checkpoint, on the node of rank 0, so it
# may name one that was never whole, and other nodes have none.
ol_checkpoint_point() { # DIR PREFIX NAME
  local file text=$3
  case $2 in
    global_step) file=latest ;;
    iter_)
      file=latest_checkpointed_iteration.txt
      [[ -z $3 ]] || text=$((10#${3//[!0-9]/}))
      ;;
    *) return 0 ;;
  esac
  if [[ -z $3 ]]; then
    rm -f "$1/$file"
  else
    printf '%s\n' "$text" >"$1/.$file.new" && mv "$1/.$file.new" "$1/$file"
  fi
}

# In shared storage the trainer has written in place; only the manifest is missing.
_ol_checkpoint_mark() { # MANIFEST_FILE PATH
  local paper
  paper=$(_ol_checkpoint_paper "$2")
  cp "$1" "$paper.new" && sync -f "$2" && mv "$paper.new" "$paper"
}

# Print `STEP NAME` of those with a manifest in this folder, newest first.
_ol_checkpoint_marked() { # PREFIX
  local name paper step
  for name in "$1"[0-9]*; do
    paper=$(_ol_checkpoint_paper "$name")
    [[ -e $name && -e $paper ]] || continue
    step=${name#"$1"}
    printf '%d %s\n' "$((10#${step%%[!0-9]*}))" "$name"
  done | sort -rn
}

# The trainer may prune its folder while we copy, so the files are linked aside first, and what arrived is
# counted; the lease is looked at last, so that a job that lost the run publishes nothing.
_ol_checkpoint_copy() { # STEP SRC ASIDE CHECKPOINTS NAME LEASE GENERATION MANIFEST_FILE
  local src=$2 aside=$3 into=$4 name=$5 lease=$6 status=0 said found newest
  rm -rf "$aside" "$into/.incoming-$name"
  # A full disk has no room even for links: then what is there is copied as it is, if nobody prunes it.
  if [[ -d $src ]]; then
    cp -al "$src" "$aside" 2>/dev/null || aside=$src
    cp -r "$aside" "$into/.incoming-$name" || status=1
  else
    mkdir "$into/.incoming-$name" && cp "$src" "$into/.incoming-$name/" || status=1
  fi
  if ((status != 0)); then
    _ol_retention_make_room "$into" # most often that is what it lacks
    return 1
  fi
  sync -f "$into/.incoming-$name" || return 1
  said=$(_ol_checkpoint_said "$8") && found=$(_ol_checkpoint_found "$into/.incoming-$name") || return 1
  [[ $said == "$found" ]] || return 1
  newest=$(find "$lease" -name '[0-9][0-9][0-9][0-9][0-9][0-9]' -printf '%f\n' | sort | tail -n 1) || return 1
  [[ $newest == "$7" ]] || return 3
  _ol_checkpoint_mark "$8" "$into/.incoming-$name" || return 1
  rm -rf "$into/.trash-$name"
  [[ ! -e $into/$name ]] || mv "$into/$name" "$into/.trash-$name" || return 1
  mv "$into/.incoming-$name" "$into/$name"
}

# Run one of these functions, with those it calls, in a child.
_ol_checkpoint_child() { # ol_bounded|ol_bounded_print SEC FUNCTION ARGS...
  local text
  text=$(declare -f "$3" _ol_checkpoint_said _ol_checkpoint_found _ol_checkpoint_paper _ol_checkpoint_mark _ol_checkpoint_marked _ol_checkpoint_banish _ol_checkpoint_head _ol_retention_make_room _ol_retention_expire)
  "$1" "$2" bash -c "set -o pipefail; $text; $3 \"\$@\"" _ "${@:4}"
}

# The parts of one node alone, published, would be a checkpoint that nothing can load.
ol_checkpoint_keep() {
  local step=$1 src=$2 name=${2##*/} manifest=$OUTLAST_STATE/manifest.$BASHPID begun_s now_s status=0 bytes
  ! ol_checkpoint_is_in_parts || return 1
  printf -v begun_s '%(%s)T' -1
  _ol_checkpoint_manifest "$step" "$src" >"$manifest"
  if [[ $OUTLAST_STORAGE == local ]]; then
    _ol_checkpoint_child ol_bounded "${OUTLAST_COPY_LIMIT_S:-7200}" _ol_checkpoint_copy "$step" "$src" "$OUTLAST_LOCAL/aside" "$OUTLAST_RUN_DIR/checkpoints" "$name" "$OUTLAST_RUN_DIR/lease" \
      "$OUTLAST_GENERATION" "$manifest" || status=$?
    rm -rf "$OUTLAST_LOCAL/aside"
  else
    _ol_checkpoint_child ol_bounded "${OUTLAST_COPY_LIMIT_S:-7200}" _ol_checkpoint_mark "$manifest" "$src" || status=$?
  fi
  bytes=$(sed -nE '1s/.*"bytes":([0-9]+).*/\1/p' "$manifest")
  rm -f "$manifest"
  if ((status != 0)); then
    ol_log_warn "checkpoint $step is not durable yet (status $status)"
    return "$status"
  fi
  printf -v now_s '%(%s)T' -1
  printf '%d\n' "$step" >"$OUTLAST_STATE/durable_step"
  ol_ledger_add checkpoint_durable step:="$step" bytes:="$bytes" seconds:="$((now_s - begun_s))"
  ol_log_info "checkpoint $step is durable ($bytes bytes in $((now_s - begun_s)) s)"
}

_ol_checkpoint_banish() { # NAME WHY
  printf '%s: %s\n' "$1" "$2" >>../quarantine/why.txt
  mv "$1" "../quarantine/$1.$(date +%s)" && rm -f ".$1.MANIFEST.json"
}

_ol_checkpoint_banish_from() { # CHECKPOINTS NAME WHY
  cd "$1" && _ol_checkpoint_banish "$2" "$3"
}

_ol_checkpoint_count() { # CHECKPOINTS PREFIX
  cd "$1" && _ol_checkpoint_marked "$2" | wc -l
}
ol_checkpoint_marked_count() {
  _ol_checkpoint_child ol_bounded_print "${OUTLAST_SHARED_LIMIT_S:-20}" _ol_checkpoint_count "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_CKPT_PREFIX"
}

ol_checkpoint_quarantine() {
  _ol_checkpoint_child ol_bounded "${OUTLAST_SHARED_LIMIT_S:-20}" _ol_checkpoint_banish_from "${1%/*}" "${1##*/}" "$2"
}

# A checkpoint whose files do not add up to its manifest goes to quarantine. One that cannot be read does not:
# that is no answer.
_ol_checkpoint_newest() { # RUN PREFIX
  local path step paper said found
  cd "$1/checkpoints" && ls >/dev/null || return 2
  while read -r step path; do
    paper=$(_ol_checkpoint_paper "$path")
    said=$(_ol_checkpoint_said "$paper") && found=$(_ol_checkpoint_found "$path") || return 2
    if [[ $said == "$found" ]]; then
      printf '%d %s\n' "$step" "$PWD/$path"
      return 0
    fi
    _ol_checkpoint_banish "$path" "MANIFEST.json says ${said:-nothing} (files, bytes), found $found"
  done < <(_ol_checkpoint_marked "$2")
  return 1
}

ol_checkpoint_durable() {
  local answer status=0
  answer=$(_ol_checkpoint_child ol_bounded_print 120 _ol_checkpoint_newest "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX") ||
    status=$?
  # On a full disk of this node the answer gets lost on its way: that is not "none".
  [[ $status != 0 || -n $answer ]] || status=2
  ((status <= 1)) || return 2
  [[ -z $answer ]] || printf '%s\n' "$answer"
  return "$status"
}

_ol_checkpoint_drop() { # RUN PREFIX
  local name paper
  cd "$1/checkpoints" || return
  for name in "$2"[0-9]*; do
    paper=$(_ol_checkpoint_paper "$name")
    [[ -e $name && ! -e $paper ]] || continue
    _ol_checkpoint_banish "$name" "never complete"
  done
}

ol_checkpoint_drop_torn() {
  _ol_checkpoint_child ol_bounded "${OUTLAST_SHARED_LIMIT_S:-20}" _ol_checkpoint_drop "$OUTLAST_RUN_DIR" "$OUTLAST_CKPT_PREFIX"
}

# SRC may be empty: then the trainer starts anew and must see no checkpoint. What a rank of the attempt
# before left is newer or incomplete; it is moved out of the trainer's sight, the last one is kept for a look.
ol_checkpoint_arrange() { # SRC DIR PREFIX all|none
  local src=$1 dir=$2 prefix=$3 name=${1##*/} path new=$2/.arriving.$$
  mkdir -p "$dir" || return
  for path in "$dir/$prefix"[0-9]*; do
    [[ -L $path || -e $path ]] || continue
    if [[ $4 == all && -n $src && ${path##*/} == "$name" && ! -L $path && -e $path/MANIFEST.json ]] && cmp -s "$path/MANIFEST.json" "$src/MANIFEST.json"; then
      continue
    fi
    rm -rf "$dir/.unused"
    mv "$path" "$dir/.unused" || return
  done
  [[ -n $src && ! -e $dir/$name ]] || return 0
  rm -rf "$dir"/.arriving.*
  [[ ! -f $src/$name ]] || src=$src/$name # the trainer wrote a file
  if [[ $4 == none ]]; then
    ln -s "$src" "$dir/$name"
  else
    cp -r "$src" "$new" && mv "$new" "$dir/$name"
  fi
}
